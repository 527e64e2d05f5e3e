#include "libocr/data/transform.h"

#include "libtrain/core/error.h"

namespace ocr {
namespace {

const std::vector<TransformRow>& table() {
  static const std::vector<TransformRow> rows = [] {
    std::vector<TransformRow> all;
    for (const auto& family : {common_transforms(), label_transforms(), detection_transforms(),
                               recognition_transforms()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return rows;
}

// Upstream's transforms that belong to algorithms that are not here.
constexpr const char* kOther[] = {"EASTProcessTrain",
                                  "SASTProcessTrain",
                                  "MakePseGt",
                                  "RandomCropImgMask",
                                  "FCENetTargets",
                                  "RandomCropFlip",
                                  "RandomCropPolyInstances",
                                  "RandomRotatePolyInstances",
                                  "SquareResizePad",
                                  "RandomScaling",
                                  "AttnLabelEncode",
                                  "PRENLabelEncode",
                                  "PRENResizeImg",
                                  "CANLabelEncode",
                                  "ViTSTRLabelEncode",
                                  "SRNLabelEncode",
                                  "SRNRecResizeImg",
                                  "SARRecResizeImg",
                                  "NRTRRecResizeImg",
                                  "GrayRecResizeImg",
                                  "GrayImageChannelFormat",
                                  "SSLRotateResize",
                                  "SVTRRecAug",
                                  "ParseQRecAug",
                                  "ABINetRecAug",
                                  "ABINetRecResizeImg",
                                  "Pad"};

}  // namespace

std::unique_ptr<Transform> make_transform(const train::config::NamedNode& node,
                                          const TransformSettings& settings,
                                          train::config::ReadContext& context) {
  for (const TransformRow& row : table()) {
    if (node.name != row.name) continue;
    train::config::Reader arguments(node.arguments, node.name, context);
    std::unique_ptr<Transform> made = row.build(arguments, settings);
    arguments.finish();
    return made;
  }
  for (const char* other : kOther)
    if (node.name == other)
      node.name_node.fail(train::cat("transform '", node.name,
                                     "' belongs to an algorithm that is not supported here"));
  const std::string hint = train::config::did_you_mean(node.name, transform_names());
  node.name_node.fail(train::cat("there is no transform '", node.name, "'", hint));
}

std::vector<std::string> transform_names() {
  std::vector<std::string> names;
  for (const TransformRow& row : table()) names.emplace_back(row.name);
  return names;
}

void fail_at(train::config::Reader& reader, const char* key, const std::string& why) {
  const train::config::Node* n = reader.known(key);
  (n ? *n : reader.node()).fail(train::cat("'", reader.path_of(key), "' ", why));
}

}  // namespace ocr
