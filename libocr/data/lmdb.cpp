#include "libocr/data/lmdb.h"

#include <lmdb.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <mutex>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;
using train::cat;
using train::FormatError;

void check(int rc, const std::string& what) {
  if (rc != MDB_SUCCESS) throw FormatError(cat(what, ": ", mdb_strerror(rc)));
}

std::string key_of(const char* kind, int64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%s-%09lld", kind, static_cast<long long>(number));
  return text;
}

MDB_val as_value(std::string_view s) { return {s.size(), const_cast<char*>(s.data())}; }

}  // namespace

struct LmdbReader::Impl {
  struct Set {
    std::string folder;
    MDB_env* env = nullptr;
    MDB_dbi dbi = 0;
    int64_t first = 0, count = 0;
  };
  std::vector<Set> sets;
  int64_t total = 0;

  ~Impl() {
    for (Set& s : sets) mdb_env_close(s.env);
  }

  void open(const std::string& folder) {
    Set& set = sets.emplace_back();
    set.folder = folder;
    check(mdb_env_create(&set.env), folder);
    // Without thread-local slots and locks any thread may begin a read.
    check(mdb_env_open(set.env, folder.c_str(), MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | MDB_NORDAHEAD,
                       0644),
          folder);
    MDB_txn* txn = nullptr;
    check(mdb_txn_begin(set.env, nullptr, MDB_RDONLY, &txn), folder);
    const int rc = mdb_dbi_open(txn, nullptr, 0, &set.dbi);
    std::string number;
    if (rc == MDB_SUCCESS) find(txn, set, "num-samples", number);
    mdb_txn_abort(txn);
    check(rc, folder);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), set.count);
    if (error != std::errc() || end != number.data() + number.size() || set.count < 0 ||
        set.count > 1'000'000'000)
      throw FormatError(cat(folder, ": no set of samples: the key num-samples ",
                            number.empty() ? "is missing" : "is no count"));
    set.first = total;
    total += set.count;
  }

  static bool find(MDB_txn* txn, const Set& set, const std::string& key, std::string& out) {
    MDB_val k = as_value(key), v;
    if (mdb_get(txn, set.dbi, &k, &v) != MDB_SUCCESS) return false;
    out.assign(static_cast<const char*>(v.mv_data), v.mv_size);
    return true;
  }

  const Set& set_of(int64_t index) const {
    if (index < 0 || index >= total)
      throw train::ShapeError(cat("sample ", index, " of ", total, " in an LMDB set"));
    auto it = std::upper_bound(sets.begin(), sets.end(), index,
                               [](int64_t i, const Set& s) { return i < s.first; });
    // Empty sets share their first index with the next one.
    while (std::prev(it)->count == 0) --it;
    return *std::prev(it);
  }

  Record read(int64_t index, bool image) const {
    const Set& set = set_of(index);
    const int64_t number = index - set.first + 1;
    MDB_txn* txn = nullptr;
    check(mdb_txn_begin(set.env, nullptr, MDB_RDONLY, &txn), set.folder);
    Record r;
    const bool labelled = find(txn, set, key_of("label", number), r.label);
    const bool pictured = !image || find(txn, set, key_of("image", number), r.image);
    mdb_txn_abort(txn);
    if (!labelled || !pictured)
      throw train::DataError(cat(set.folder, "/", key_of(labelled ? "image" : "label", number)), 0,
                             "the set has no such key");
    return r;
  }
};

LmdbReader::LmdbReader(const std::string& folder) : impl_(std::make_unique<Impl>()) {
  std::vector<std::string> folders;
  std::error_code error;
  if (fs::exists(fs::path(folder) / "data.mdb", error)) folders.push_back(folder);
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it.depth() > 16) it.disable_recursion_pending();
    if (it->path().filename() == "data.mdb" && it->path().parent_path() != fs::path(folder))
      folders.push_back(it->path().parent_path().string());
  }
  if (error) throw FormatError(cat(folder, ": cannot be read: ", error.message()));
  if (folders.empty())
    throw FormatError(cat(folder, ": no LMDB set (a file data.mdb) in this folder or below it"));
  std::sort(folders.begin(), folders.end());
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  for (const std::string& f : folders) impl_->open(f);
}
LmdbReader::~LmdbReader() = default;
LmdbReader::LmdbReader(LmdbReader&&) noexcept = default;

int64_t LmdbReader::size() const { return impl_->total; }
LmdbReader::Record LmdbReader::get(int64_t index) const { return impl_->read(index, true); }
std::string LmdbReader::label(int64_t index) const { return impl_->read(index, false).label; }
std::string LmdbReader::name(int64_t index) const {
  const Impl::Set& set = impl_->set_of(index);
  return cat(set.folder, "/", key_of("label", index - set.first + 1));
}

struct LmdbWriter::Impl {
  std::string folder;
  MDB_env* env = nullptr;
  MDB_dbi dbi = 0;
  size_t map_bytes = size_t{256} << 20;
  int64_t count = 0;
  std::vector<std::pair<std::string, std::string>> pending;
  size_t pending_bytes = 0;

  ~Impl() {
    if (env) mdb_env_close(env);
  }

  // Writes what is pending in one transaction; the map grows until it fits.
  void flush() {
    for (;;) {
      MDB_txn* txn = nullptr;
      check(mdb_txn_begin(env, nullptr, 0, &txn), folder);
      int rc = mdb_dbi_open(txn, nullptr, 0, &dbi);
      for (const auto& [key, value] : pending) {
        if (rc != MDB_SUCCESS) break;
        MDB_val k = as_value(key), v = as_value(value);
        rc = mdb_put(txn, dbi, &k, &v, 0);
      }
      if (rc == MDB_SUCCESS) {
        rc = mdb_txn_commit(txn);
      } else {
        mdb_txn_abort(txn);
      }
      if (rc == MDB_SUCCESS) break;
      if (rc != MDB_MAP_FULL) check(rc, folder);
      check(mdb_env_set_mapsize(env, map_bytes *= 2), folder);
    }
    pending.clear();
    pending_bytes = 0;
  }
};

LmdbWriter::LmdbWriter(const std::string& folder) : impl_(std::make_unique<Impl>()) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw train::DeviceError(cat(folder, ": cannot be made: ", error.message()));
  if (fs::exists(fs::path(folder) / "data.mdb", error))
    throw FormatError(cat(folder, ": holds an LMDB set already; name an empty folder"));
  impl_->folder = folder;
  check(mdb_env_create(&impl_->env), folder);
  check(mdb_env_set_mapsize(impl_->env, impl_->map_bytes), folder);
  check(mdb_env_open(impl_->env, folder.c_str(), 0, 0644), folder);
}
LmdbWriter::~LmdbWriter() = default;

void LmdbWriter::add(std::string_view image, std::string_view label) {
  ++impl_->count;
  impl_->pending.emplace_back(key_of("image", impl_->count), image);
  impl_->pending.emplace_back(key_of("label", impl_->count), label);
  impl_->pending_bytes += image.size() + label.size();
  if (impl_->pending.size() >= 2000 || impl_->pending_bytes > (size_t{64} << 20)) impl_->flush();
}

void LmdbWriter::finish() {
  impl_->pending.emplace_back("num-samples", std::to_string(impl_->count));
  impl_->flush();
  check(mdb_env_sync(impl_->env, 1), impl_->folder);
}

int64_t LmdbWriter::size() const { return impl_->count; }

}  // namespace ocr
