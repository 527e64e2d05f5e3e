#include "libocr/pipeline/ignored.h"

#include <iterator>

namespace ocr {
namespace {

struct Ignored {
  const char* name;
  const char* why;
};
constexpr const char* kCpu = "this program runs on the CPU with its own kernels";
constexpr const char* kOnly = "there is only one algorithm of this kind here";
constexpr const char* kShape = "lines keep their own width";
constexpr const char* kDraw = "pictures are drawn with --visualize DIR";
constexpr const char* kLog = "warnings and errors always go to stderr";

constexpr Ignored kIgnored[] = {
    {"use_gpu", kCpu},
    {"gpu_mem", kCpu},
    {"gpu_id", kCpu},
    {"use_xpu", kCpu},
    {"use_npu", kCpu},
    {"use_mlu", kCpu},
    {"use_gcu", kCpu},
    {"use_metax_gpu", kCpu},
    {"device", kCpu},
    {"ir_optim", "graphs are always optimised"},
    {"use_tensorrt", kCpu},
    {"min_subgraph_size", kCpu},
    {"enable_mkldnn", kCpu},
    {"mkldnn_cache_capacity", kCpu},
    {"enable_hpi", kCpu},
    {"use_onnx", "models are always ONNX files"},
    {"onnx_providers", kCpu},
    {"onnx_sess_options", kCpu},
    {"engine", kCpu},
    {"det_algorithm", kOnly},
    {"rec_algorithm", kOnly},
    {"max_batch_size", "pages are detected one at a time"},
    {"max_text_length", kShape},
    {"vis_font_path", kDraw},
    {"font_path", kDraw},
    {"use_mp", "use --jobs N"},
    {"process_id", "use --jobs N"},
    {"benchmark", "use `ocr bench`"},
    {"save_log_path", kLog},
    {"show_log", kLog},
    {"warmup", "nothing needs warming up"},
    {"invert", "pages are read as they are"},
    {"binarize", "pages are read as they are"},
    {"alphacolor", "transparent pages are put on a background that suits the text"},
    {"use_doc_unwarping", "pages are not unwarped"},
    {"use_pdserving", "there is no server"},
    {"use_pdf2docx_api", "there is no DOCX output"},
    {"det_east_score_thresh", kOnly},
    {"det_east_cover_thresh", kOnly},
    {"det_east_nms_thresh", kOnly},
    {"det_sast_score_thresh", kOnly},
    {"det_sast_nms_thresh", kOnly},
    {"det_pse_thresh", kOnly},
    {"det_pse_box_thresh", kOnly},
    {"det_pse_min_area", kOnly},
    {"det_pse_scale", kOnly},
    {"scales", kOnly},
    {"alpha", kOnly},
    {"beta", kOnly},
    {"fourier_degree", kOnly},
    {"rec_image_inverse", "pages are read as they are"},
    {"type", "use --task"},
    {"lang", "the model set decides which scripts are read; see --models"},
    {"ocr_version", "choose with --models"},
};

}  // namespace

const char* ignored_option(std::string_view name) {
  for (const Ignored& i : kIgnored)
    if (name == i.name) return i.why;
  return nullptr;
}

std::vector<IgnoredOption> ignored_options() {
  std::vector<IgnoredOption> out;
  for (const Ignored& i : kIgnored) {
    const std::string_view name = i.name;
    const bool boolean = name.starts_with("use_") || name.starts_with("enable_") ||
                         name == "ir_optim" || name == "benchmark" || name == "show_log" ||
                         name == "warmup" || name == "invert" || name == "binarize" ||
                         name == "rec_image_inverse";
    out.push_back({i.name, boolean});
  }
  return out;
}

}  // namespace ocr
