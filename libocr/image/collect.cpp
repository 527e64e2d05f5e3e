#include "libocr/image/collect.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>
#include <string_view>

#include "libocr/image/glob.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr std::array<std::string_view, 16> kExtensions = {
    "jpg", "jpeg", "jpe", "jfif", "png", "bmp", "dib", "webp",
    "tif", "tiff", "pbm", "pgm",  "ppm", "pnm", "gif", "pdf"};

bool has_known_extension(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == name.npos || name.size() - dot > 8) return false;
  std::string extension(name.substr(dot + 1));
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

std::string base_name(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == path.npos) return path;
  const size_t slash = path.rfind('/', end);
  return path.substr(slash == path.npos ? 0 : slash + 1,
                     end - (slash == path.npos ? 0 : slash + 1) + 1);
}

// A path that stays below an output folder: no leading slash, no "." and no "..".
std::string mirrored(const std::string& path) {
  std::string out;
  for (size_t start = 0; start < path.size();) {
    const size_t slash = std::min(path.find('/', start), path.size());
    const std::string component = path.substr(start, slash - start);
    start = slash + 1;
    if (component.empty() || component == ".") continue;
    if (!out.empty()) out += '/';
    out += component == ".." ? "_up" : component;
  }
  return out;
}

class Collector {
 public:
  explicit Collector(const CollectOptions& options) : options_(options) {
    for (const std::string& list : options.lists) add_list(list);
    for (const std::string& argument : options.arguments) add_argument(argument);
  }
  Inputs take() { return std::move(inputs_); }

 private:
  void fail(const std::string& path, const std::string& message) {
    inputs_.errors.push_back({path, path + ": " + message});
  }

  void add_file(const std::string& path, std::string relative) {
    if (!paths_.insert(path).second) {
      inputs_.repeated++;
      return;
    }
    // Two files of one name from different places: the second is told apart by its whole path, then
    // by a number.
    if (relatives_.contains(relative)) relative = mirrored(path);
    const size_t slash = relative.rfind('/');
    const size_t dot = relative.rfind('.');
    const size_t stem =
        dot == relative.npos || (slash != relative.npos && dot < slash) ? relative.size() : dot;
    std::string unique = relative;
    for (int i = 2; !relatives_.insert(unique).second; i++)
      unique = train::cat(relative.substr(0, stem), "~", i, relative.substr(stem));
    inputs_.jobs.push_back({path, unique});
  }

  void add_argument(const std::string& argument) {
    if (argument == "-") return add_file("-", "stdin");
    struct stat info = {};
    if (::stat(argument.c_str(), &info) == 0)
      return add_existing(argument, base_name(argument), info);
    const int error = errno;
    if (error != ENOENT && error != ENOTDIR) return fail(argument, std::strerror(error));
    if (!is_glob(argument)) return fail(argument, "does not exist");
    add_pattern(argument);
  }

  void add_existing(const std::string& path, const std::string& relative, const struct stat& info) {
    if (!S_ISDIR(info.st_mode)) return add_file(path, relative);
    const std::string root = path.ends_with('/') ? path : path + "/";
    std::vector<std::pair<std::string, std::string>> files;
    std::set<std::pair<dev_t, ino_t>> visited;
    walk(root, "", visited, files);
    if (files.empty())
      fail(path, "holds no image or PDF file (other names are taken only if given directly)");
    std::sort(files.begin(), files.end());
    for (const auto& [below, full] : files) add_file(full, below);
  }

  // Pairs (relative, path) of all files under `folder`, which ends in '/'. The depth is that of
  // real folders, since each is visited once.
  void walk(const std::string& folder, const std::string& below,
            std::set<std::pair<dev_t, ino_t>>& visited,
            std::vector<std::pair<std::string, std::string>>& files) {
    struct stat info = {};
    if (::stat(folder.c_str(), &info) != 0) return fail(folder, std::strerror(errno));
    if (!visited.insert({info.st_dev, info.st_ino}).second) return;
    DIR* dir = ::opendir(folder.c_str());
    if (!dir) return fail(folder, train::cat("the folder cannot be read: ", std::strerror(errno)));
    std::vector<std::string> names;
    while (const dirent* e = ::readdir(dir))
      if (e->d_name[0] != '.') names.emplace_back(e->d_name);
    ::closedir(dir);
    std::sort(names.begin(), names.end());  // also decides which of two links to a folder counts
    for (const std::string& name : names) {
      const std::string path = folder + name;
      if (::stat(path.c_str(), &info) != 0) {
        if (has_known_extension(name)) fail(path, std::strerror(errno));
      } else if (S_ISDIR(info.st_mode)) {
        if (options_.recursive) walk(path + "/", below + name + "/", visited, files);
      } else if (S_ISREG(info.st_mode) && has_known_extension(name)) {
        files.emplace_back(below + name, path);
      }
    }
  }

  void add_pattern(const std::string& pattern) {
    std::vector<std::string> unreadable;
    const std::vector<std::string> found = expand_glob(pattern, unreadable);
    for (const std::string& folder : unreadable)
      fail(folder.empty() ? "." : folder, "the folder cannot be read");
    const size_t root = glob_root(pattern).size();
    bool any = false;
    for (const std::string& path : found) {
      struct stat info = {};
      if (::stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) continue;
      any = true;
      add_file(path, mirrored(path.substr(root)));
    }
    if (!any) fail(pattern, "no file matches");
  }

  void add_list(const std::string& list) {
    std::ifstream file;
    if (list != "-") {
      file.open(list, std::ios::binary);
      struct stat info = {};
      if (!file || (::stat(list.c_str(), &info) == 0 && S_ISDIR(info.st_mode)))
        return fail(list, "the list cannot be opened");
    }
    std::istream& in = list == "-" ? std::cin : file;
    const std::string folder =
        list.substr(0, list.rfind('/') == list.npos ? 0 : list.rfind('/') + 1);
    bool first = true;
    for (std::string line; std::getline(in, line); first = false) {
      if (first && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
      if (line.ends_with('\r')) line.pop_back();
      line.erase(std::min(line.find('\t'), line.size()));
      if (!line.empty()) add_listed(line, folder);
    }
  }

  void add_listed(const std::string& line, const std::string& folder) {
    struct stat info = {};
    std::string path = line;
    if (::stat(path.c_str(), &info) != 0) {
      const std::string beside = folder + line;
      if (line[0] == '/' || ::stat(beside.c_str(), &info) != 0)
        return fail(line, "does not exist (named in a list)");
      path = beside;
    }
    add_existing(path, line[0] == '/' ? base_name(line) : mirrored(line), info);
  }

  const CollectOptions& options_;
  Inputs inputs_;
  std::set<std::string> paths_, relatives_;
};

}  // namespace

Inputs collect_inputs(const CollectOptions& options) { return Collector(options).take(); }

}  // namespace ocr
