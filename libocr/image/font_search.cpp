#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "libocr/image/font.h"

namespace ocr {
namespace {

constexpr int kMaxDepth = 8;
constexpr size_t kMaxFonts = 5000;

// Families in order of preference, as parts of lower-case file names without separators.
constexpr std::array<std::string_view, 27> kFamilies = {
    "notosanscjk",    "sourcehansans",     "notosanssc", "notoserifcjk",  "wqymicrohei",
    "wqyzenhei",      "droidsansfallback", "simhei",     "simfang",       "simsun",
    "msyh",           "pingfang",          "uming",      "ukai",          "ipaexg",
    "ipag",           "nanumgothic",       "unifont",    "dejavusans",    "notosans",
    "liberationsans", "freesans",          "arial",      "robotoregular", "opensansregular",
    "ubuntu",         "latinmodern"};
constexpr std::array<std::string_view, 8> kVariants = {"bold", "italic", "oblique", "condensed",
                                                       "mono", "light",  "thin",    "black"};

std::string normalised_name(const std::string& path) {
  std::string out;
  for (const char c : path.substr(path.rfind('/') + 1)) {
    if (c == '-' || c == '_' || c == ' ') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return out;
}

bool is_font_file(std::string_view name) {
  for (const std::string_view extension :
       {".ttf", ".otf", ".ttc", ".otc", ".TTF", ".OTF", ".TTC", ".OTC"})
    if (name.ends_with(extension)) return true;
  return false;
}

void search(const std::string& folder, int depth, std::vector<std::string>& found) {
  DIR* dir = depth > kMaxDepth ? nullptr : ::opendir(folder.c_str());
  if (!dir) return;
  std::vector<std::string> folders;
  while (const dirent* e = ::readdir(dir)) {
    const std::string name = e->d_name;
    if (name[0] == '.') continue;
    const std::string path = folder + "/" + name;
    if (is_font_file(name)) {
      if (found.size() < kMaxFonts) found.push_back(path);
      continue;
    }
    struct stat info = {};
    if (::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) folders.push_back(path);
  }
  ::closedir(dir);
  for (const std::string& f : folders) search(f, depth + 1, found);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> font_folders() {
  std::vector<std::string> folders;
  const std::string home = variable("HOME");
  std::string data_home = variable("XDG_DATA_HOME"), data_dirs = variable("XDG_DATA_DIRS");
  if (data_home.empty() && !home.empty()) data_home = home + "/.local/share";
  if (!data_home.empty()) folders.push_back(data_home + "/fonts");
  if (!home.empty()) folders.push_back(home + "/.fonts");
  data_dirs += data_dirs.empty() ? "/usr/local/share:/usr/share" : ":/usr/local/share:/usr/share";
  for (size_t start = 0; start < data_dirs.size();) {
    const size_t colon = std::min(data_dirs.find(':', start), data_dirs.size());
    const std::string folder = data_dirs.substr(start, colon - start) + "/fonts";
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(folder);
    start = colon + 1;
  }
  return folders;
}

}  // namespace

std::vector<std::string> find_fonts() {
  std::vector<std::string> found;
  for (const std::string& folder : font_folders()) search(folder, 0, found);
  std::vector<std::tuple<size_t, size_t, std::string>>
      ranked;  // family, variants in the name, path
  for (std::string& path : found) {
    const std::string name = normalised_name(path);
    size_t family = 0, variants = 0;
    while (family < kFamilies.size() && name.find(kFamilies[family]) == name.npos) family++;
    for (const std::string_view v : kVariants) variants += name.find(v) != name.npos;
    ranked.emplace_back(family, variants, std::move(path));
  }
  std::sort(ranked.begin(), ranked.end());
  // Upright regular fonts of all families first: a bold one of a good family helps with no further
  // character.
  std::stable_partition(ranked.begin(), ranked.end(),
                        [](const auto& r) { return std::get<1>(r) == 0; });
  std::vector<std::string> paths;
  for (auto& r : ranked) paths.push_back(std::move(std::get<2>(r)));
  return paths;
}

}  // namespace ocr
