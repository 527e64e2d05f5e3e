#include <csetjmp>
#include <cstdio>
#include <cstring>
// jpeglib.h needs FILE and size_t declared before it.
#include <jerror.h>
#include <jpeglib.h>

#include "libocr/image/decoder.h"
#include "libocr/image/exif.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr int kMaxScans = 500;  // of a progressive file; real ones have about ten
constexpr int kMaxWarnings = 8;
constexpr int kBufferBytes = 1 << 16;
constexpr int kBandRows = 32;

// libjpeg's state with its callbacks. Errors leave libjpeg by longjmp, but only across the frames
// of libjpeg and of the lambda given to call(), which own nothing; call() then throws.
class JpegReader {
 public:
  JpegReader(ByteSource& source, const std::string& name) : source_(source), name_(name) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    errors_.output_message = [](j_common_ptr) {};
    call([&] { jpeg_create_decompress(&info_); });
    info_.src = &input_;
    input_.init_source = [](j_decompress_ptr) {};
    input_.fill_input_buffer = on_fill;
    input_.skip_input_data = on_skip;
    input_.resync_to_restart = jpeg_resync_to_restart;
    input_.term_source = [](j_decompress_ptr) {};
    info_.progress = &progress_;
    progress_.progress_monitor = on_progress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  template <class F>
  void call(F&& f) {
    if (setjmp(jump_) == 0) {
      f();
      return;
    }
    if (truncated_)
      throw train::FormatError(name_ +
                               ": is truncated: the JPEG data ends before the image is complete");
    throw train::FormatError(train::cat(name_, ": is not a valid JPEG: ", error_));
  }

  jpeg_decompress_struct& info() { return info_; }
  bool at_end() const { return at_end_; }
  std::vector<std::string> take_warnings() { return std::move(warnings_); }

 private:
  static JpegReader& self(void* info) {
    return *static_cast<JpegReader*>(static_cast<j_common_ptr>(info)->client_data);
  }

  static void on_error(j_common_ptr info) {
    JpegReader& me = self(info);
    info->err->format_message(info, me.error_);
    if (me.at_end_) me.truncated_ = true;
    std::longjmp(me.jump_, 1);
  }

  static void on_message(j_common_ptr info, int level) {
    JpegReader& me = self(info);
    if (level >= 0) return;  // traces
    if (info->err->msg_code == JWRN_HIT_MARKER && me.data_is_over()) {
      me.truncated_ = true;
      std::longjmp(me.jump_, 1);
    }
    if (me.warning_count_++ >= kMaxWarnings) return;
    info->err->format_message(info, me.error_);
    me.add_warning();
  }

  // Called where bits are missing: because the file ended, or because its data stop before half of
  // the image is there (a few bytes would otherwise become a huge grey page). Less than that is
  // damage that is worked around.
  bool data_is_over() const {
    if (at_end_) return true;
    const int marker = info_.unread_marker;
    const bool restart = marker >= JPEG_RST0 && marker <= JPEG_RST0 + 7;
    return !restart && info_.input_scan_number <= 1 &&
           info_.input_iMCU_row < info_.total_iMCU_rows / 2;
  }

  void add_warning() noexcept {
    try {
      warnings_.emplace_back(error_);
    } catch (const std::bad_alloc&) {
      warning_count_ = kMaxWarnings;
    }
  }

  static boolean on_fill(j_decompress_ptr info) {
    JpegReader& me = self(info);
    const int64_t got = me.source_.read_at(me.offset_, me.buffer_, kBufferBytes);
    if (got > 0) {
      me.offset_ += got;
      me.input_.next_input_byte = me.buffer_;
      me.input_.bytes_in_buffer = static_cast<size_t>(got);
      return TRUE;
    }
    static constexpr JOCTET kEndOfImage[] = {0xFF, JPEG_EOI};
    me.at_end_ = true;
    me.input_.next_input_byte = kEndOfImage;
    me.input_.bytes_in_buffer = 2;
    return TRUE;
  }

  static void on_skip(j_decompress_ptr info, long count) {
    JpegReader& me = self(info);
    if (count <= 0) return;
    const auto n = static_cast<size_t>(count);
    if (n <= me.input_.bytes_in_buffer) {
      me.input_.next_input_byte += n;
      me.input_.bytes_in_buffer -= n;
    } else {
      me.offset_ += static_cast<int64_t>(n - me.input_.bytes_in_buffer);
      me.input_.bytes_in_buffer = 0;
    }
  }

  static void on_progress(j_common_ptr info) {
    auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
    if (decompress->input_scan_number <= kMaxScans) return;
    JpegReader& me = self(info);
    std::snprintf(me.error_, sizeof me.error_, "it has more than %d scans", kMaxScans);
    std::longjmp(me.jump_, 1);
  }

  ByteSource& source_;
  const std::string& name_;
  jpeg_decompress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_source_mgr input_ = {};
  jpeg_progress_mgr progress_ = {};
  std::jmp_buf jump_;
  char error_[JMSG_LENGTH_MAX] = "";
  bool at_end_ = false, truncated_ = false;
  int warning_count_ = 0;
  std::vector<std::string> warnings_;
  int64_t offset_ = 0;
  JOCTET buffer_[kBufferBytes];
};

class JpegDecoder : public Decoder {
 public:
  using Decoder::Decoder;

  PageInfo info(int) override {
    JpegReader reader(*source_, name_);
    return header(reader);
  }

  Page read(int, Bgr, AlphaStats*) override {
    auto reader = std::make_unique<JpegReader>(*source_, name_);
    Page page;
    page.info = header(*reader);
    jpeg_decompress_struct& info = reader->info();
    const bool cmyk = info.num_components == 4;
    info.out_color_space = cmyk ? JCS_CMYK : JCS_EXT_BGR;
    check_buffers(*reader);
    reader->call([&] { jpeg_start_decompress(&info); });
    decode_rows(*reader, page, cmyk);
    if (info.progressive_mode && reader->at_end()) fail_truncated();
    page.warnings = reader->take_warnings();
    return page;
  }

 private:
  PageInfo header(JpegReader& reader) {
    jpeg_decompress_struct& info = reader.info();
    reader.call([&] {
      jpeg_save_markers(&info, JPEG_APP0 + 1, 0xFFFF);
      jpeg_read_header(&info, TRUE);
      info.scale_num = 1;
    });
    info.scale_denom = static_cast<unsigned>(options_.scale_denom);
    reader.call([&] { jpeg_calc_output_dimensions(&info); });
    const int n = info.num_components;
    if (n != 1 && n != 3 && n != 4)
      fail(train::cat("is a JPEG with ", n, " colour components, which is not supported"));
    // Limits hold for the coded size: a scaled decode still reads all of it.
    check_limits(info.image_width, info.image_height);
    const ExifInfo exif = find_exif(info);
    double dpi = exif.dpi;
    if (info.saw_JFIF_marker && info.X_density > 1 && info.density_unit != 0)
      dpi = info.X_density * (info.density_unit == 2 ? 2.54 : 1);
    return make_info(info.output_width, info.output_height, exif.orientation, dpi);
  }

  static ExifInfo find_exif(const jpeg_decompress_struct& info) {
    for (auto* m = info.marker_list; m; m = m->next)
      if (m->marker == JPEG_APP0 + 1 && m->data_length >= 6 &&
          std::memcmp(m->data, "Exif\0\0", 6) == 0)
        return parse_exif(m->data, m->data_length);
    return {};
  }

  // A file of several scans is held whole as 16-bit coefficients.
  void check_buffers(JpegReader& reader) {
    jpeg_decompress_struct& info = reader.info();
    int64_t extra = 64ll * info.image_width * 4;  // a few block rows
    if (info.progressive_mode || info.comps_in_scan < info.num_components)
      for (int i = 0; i < info.num_components; i++)
        extra += int64_t{info.comp_info[i].width_in_blocks} * info.comp_info[i].height_in_blocks *
                 DCTSIZE2 * static_cast<int64_t>(sizeof(JCOEF));
    check_memory(info.output_width, info.output_height, extra,
                 info.progressive_mode ? "decoding a progressive JPEG" : "decoding");
    info.mem->max_memory_to_use = static_cast<long>(
        options_.max_memory - int64_t{3} * info.output_width * info.output_height);
  }

  void decode_rows(JpegReader& reader, Page& page, bool cmyk) {
    jpeg_decompress_struct& info = reader.info();
    const int width = static_cast<int>(info.output_width),
              height = static_cast<int>(info.output_height);
    RowWriter writer(page.image, width, height, page.info.oriented ? page.info.orientation : 1,
                     kBandRows);
    PixelBuffer scratch(cmyk ? size_t{4} * static_cast<size_t>(width) : 0);
    for (int y = 0; y < height;) {
      JSAMPROW rows[kBandRows];
      const int wanted = cmyk ? 1 : std::min(kBandRows - y % kBandRows, height - y);
      for (int i = 0; i < wanted; i++) rows[i] = cmyk ? scratch.data() : writer.row(y + i);
      JDIMENSION got = 0;
      reader.call([&] { got = jpeg_read_scanlines(&info, rows, static_cast<JDIMENSION>(wanted)); });
      if (got == 0) fail_truncated();
      // Adobe's programs store CMYK inverted, and nobody else writes it.
      if (cmyk) cmyk_row(scratch.data(), writer.row(y), width, true);
      y += static_cast<int>(got);
    }
    writer.finish();
  }
};

}  // namespace

std::unique_ptr<Decoder> make_jpeg(std::shared_ptr<ByteSource> source, const std::string& name,
                                   const DecodeOptions& options) {
  return std::make_unique<JpegDecoder>(std::move(source), name, options);
}

}  // namespace ocr
