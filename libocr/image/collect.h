// From what stands on the command line to a list of input files: folders, patterns, lists, standard
// input.
#pragma once
#include <string>
#include <vector>

namespace ocr {

/// One input. Paths are bytes as the system has them, in no particular encoding.
struct InputJob {
  std::string path;      // "-" is standard input
  std::string relative;  // below the folder or pattern it came from; outputs mirror it. Unique in a
                         // list of jobs.
};

/// Something that was named but is no input; the job list goes on without it.
struct InputError {
  std::string path, message;  // the message names the path
};

struct Inputs {
  std::vector<InputJob> jobs;  // in the order of the arguments; bytewise within a folder or pattern
  std::vector<InputError> errors;
  int repeated = 0;  // paths named more than once and taken once
};

struct CollectOptions {
  std::vector<std::string> arguments;  // files, folders, patterns, "-"
  std::vector<std::string> lists;      // files with one path a line ("-" reads standard input)
  bool recursive = true;               // into the folders of a folder
};

/// Collects the inputs. A path that exists is taken literally even if it holds pattern characters.
/// Files named directly, by pattern or by list are taken whatever they are called; only in folders
/// are names filtered, by extension: jpg jpeg jpe jfif png bmp dib webp tif tiff pbm pgm ppm pnm
/// gif pdf, in any case. Hidden files and folders (a leading dot) are skipped in folders. A folder
/// reached twice, by links, is read once. In a list, text after a tab is ignored (label files
/// work), and a relative path that does not exist from the current folder is looked up from the
/// list's own folder. Never throws for what is on the disk.
Inputs collect_inputs(const CollectOptions& options);

}  // namespace ocr
