#include "libocr/models/model.h"

#include "libocr/models/backbones.h"
#include "libocr/models/heads.h"
#include "libtrain/core/error.h"

namespace ocr::models {

namespace config = train::config;
using config::ArchitectureConfig;
using config::NamedSection;
using config::Node;
using config::ReadContext;
using train::cat;

Model::Model(std::unique_ptr<Layer> transform, std::unique_ptr<Backbone> backbone,
             std::unique_ptr<Neck> neck, std::unique_ptr<Head> head)
    : transform_(transform ? &adopt("transform", std::move(transform)) : nullptr),
      backbone_(adopt("backbone", std::move(backbone))),
      neck_(neck ? &adopt("neck", std::move(neck)) : nullptr),
      head_(adopt("head", std::move(head))) {}

std::vector<Variable> Model::features(Tape& tape, const Variable& images) const {
  return backbone_(tape, transform_ ? (*transform_)(tape, images) : images);
}

Outputs Model::operator()(Tape& tape, const Variable& images) const {
  const std::vector<Variable> found = features(tape, images);
  return head_(tape, neck_ ? (*neck_)(tape, found) : Features(found.back()));
}

Outputs Model::guided(Tape& tape, const Variable& images, const Variable& tokens) const {
  const std::vector<Variable> found = features(tape, images);
  return head_.guided(tape, neck_ ? (*neck_)(tape, found) : Features(found.back()), tokens);
}

namespace {

// Options by their own description, without the key that chose them. What a maker refuses is told
// with the section's place.
template <class Options, class Make>
auto read_and_make(const Node& node, const std::string& path, ReadContext& context, Options options,
                   Make&& make) {
  config::Reader reader(node, path, context);
  reader.ignore("name");
  options.describe(reader);
  reader.finish();
  try {
    return make(options);
  } catch (const train::ConfigError&) {
    throw;
  } catch (const train::Error& e) {
    node.fail(cat(path, ": ", e.what()));
  }
}

[[noreturn]] void unknown(const NamedSection& section, const char* what,
                          const std::string& for_what, const std::vector<std::string>& known,
                          const std::vector<std::string>& not_built) {
  for (const std::string& name : not_built)
    if (name == section.name)
      section.node.fail(cat(what, " '", name, "' is PaddleOCR's, but not built here"));
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  section.node.fail(cat("no ", what, " '", section.name, "' for ", for_what, ": there are ", names,
                        config::did_you_mean(section.name, known)));
}

std::unique_ptr<Layer> make_transform(const ArchitectureConfig& a, ReadContext& context) {
  const NamedSection& t = a.transform;
  if (!t.present() || t.name.empty()) return nullptr;
  if (a.model_type == "rec" && t.name == "STN_ON")
    return read_and_make(t.node, "Architecture.Transform", context, StnOptions{}, make_stn);
  unknown(t, "transform", cat("model_type ", a.model_type), {"STN_ON"},
          {"TPS", "TSRN", "TBSRN", "GA_SPIN"});
}

std::unique_ptr<Backbone> make_backbone(const ArchitectureConfig& a, ReadContext& context) {
  const NamedSection& b = a.backbone;
  if (!b.present()) a.node.fail("Architecture has no Backbone");
  const auto made = [&](auto options, auto maker) {
    return read_and_make(b.node, "Architecture.Backbone", context, options, maker);
  };
  const bool det = a.model_type == "det";
  if (b.name == "MobileNetV3")
    return made(MobileNetV3Options{.scale = det ? .5 : .35, .large_stride = {}, .small_stride = {}},
                det ? make_mobilenet_v3_det : make_mobilenet_v3_rec);
  if (det && (b.name == "ResNet_vd" || b.name == "ResNet"))
    return made(ResNetOptions{}, make_resnet_vd_det);
  if (!det && b.name == "ResNet") return made(ResNetOptions{}, make_resnet_vd_rec);
  if (b.name == "PPLCNetV3") return made(PPLCNetV3Options{.det = false}, make_pplcnet_v3);
  if (b.name == "PPLCNetV4") return made(PPLCNetV4Options{.det = false}, make_pplcnet_v4);
  if (b.name == "PPHGNet_small") return made(PPHGNetOptions{}, make_pphgnet_small);
  if (b.name == "PPHGNetV2_B4") return made(PPHGNetOptions{}, make_pphgnet_v2_b4);
  if (!det && b.name == "MobileNetV1Enhance")
    return made(MobileNetV1EnhanceOptions{}, make_mobilenet_v1_enhance);
  if (!det && b.name == "SVTRNet") return made(SvtrNetOptions{}, make_svtr_net);
  if (a.model_type == "cls" && b.name == "PPLCNet") return made(PPLCNetOptions{}, make_pplcnet);
  std::vector<std::string> known{"MobileNetV3", "PPLCNetV3", "PPLCNetV4", "PPHGNet_small",
                                 "PPHGNetV2_B4"};
  if (det) known.emplace_back("ResNet_vd");
  if (!det) known.insert(known.end(), {"ResNet", "MobileNetV1Enhance", "SVTRNet"});
  if (a.model_type == "cls") known.emplace_back("PPLCNet");
  unknown(b, "backbone", cat("model_type ", a.model_type), known,
          {"SVTRv2LNConvTwo33", "SVTRv2", "ResNet31", "ResNet45", "ResNetFPN", "ResNet_SAST", "MTB",
           "ResNet32", "RecMv1_enhance"});
}

std::unique_ptr<Neck> make_neck(const ArchitectureConfig& a, const Backbone& backbone,
                                ReadContext& context) {
  const NamedSection& n = a.neck;
  if (!n.present()) return nullptr;
  const std::vector<int64_t>& in = backbone.channels();
  const auto pyramid = [&](auto make) {
    return read_and_make(n.node, "Architecture.Neck", context, PyramidOptions{},
                         [&](const PyramidOptions& o) { return make(in, o); });
  };
  if (a.model_type == "det") {
    if (n.name == "DBFPN") return pyramid(make_db_fpn);
    if (n.name == "RSEFPN") return pyramid(make_rse_fpn);
    if (n.name == "RepLKFPN" || n.name == "UniRepLKFPN") return pyramid(make_rep_lk_fpn);
    if (n.name == "LKPAN") return pyramid(make_lk_pan);
    if (n.name == "RepLKPAN" || n.name == "UniRepLKPAN") return pyramid(make_rep_lk_pan);
    unknown(n, "neck", "model_type det", {"DBFPN", "RSEFPN", "RepLKFPN", "LKPAN", "RepLKPAN"},
            {"FPN", "EASTFPN", "SASTFPN", "FCEFPN", "PGFPN"});
  }
  if (n.name == "SequenceEncoder")
    return read_and_make(n.node, "Architecture.Neck", context, SequenceOptions{},
                         [&](const SequenceOptions& o) { return make_sequence_encoder(in[0], o); });
  unknown(n, "neck", cat("model_type ", a.model_type), {"SequenceEncoder"},
          {"Im2Seq", "TableFPN", "PRENFPN"});
}

// MultiHead's branches are a list of maps of one key: `- CTCHead: {Neck: ..., Head: ...}`.
std::unique_ptr<Head> make_multi(const Node& node, int64_t in, int64_t classes,
                                 ReadContext& context, bool with_guides) {
  const std::string path = "Architecture.Head";
  config::Reader reader(node, path, context);
  std::vector<config::NamedNode> branches;
  reader.ignore("name");
  MultiHeadOptions options;
  bool pool = false, ctc = false;
  reader.field("use_pool", pool);
  reader.field("use_pos", options.use_pos);
  reader.required("head_list", branches);
  reader.finish();
  if (pool) node.fail(path + ".use_pool (of SVTRv2) is not built");
  for (const config::NamedNode& branch : branches) {
    if (branch.name == "NRTRHead") {
      NrtrOptions nrtr;
      config::Reader keys(branch.arguments, path + ".head_list.NRTRHead", context);
      nrtr.describe(keys);
      keys.finish();
      nrtr.classes = classes + 3;  // a blank, an unknown, two marks; CTC's classes hold its blank
      if (with_guides) options.nrtr = nrtr;
      continue;
    }
    if (branch.name != "CTCHead") {
      context.warnings.push_back(cat(branch.name_node.where(), ": ", branch.name,
                                     " only guides a training and is left out"));
      continue;
    }
    ctc = true;
    config::Reader parts(branch.arguments, path + ".head_list.CTCHead", context);
    const Node* neck = parts.known("Neck");
    parts.field("Head", options.ctc);
    parts.finish();
    if (!neck) continue;
    config::Reader keys(*neck, path + ".head_list.CTCHead.Neck", context);
    keys.field("name", options.ctc_neck.encoder_type);
    options.ctc_neck.describe(keys);
    keys.finish();
  }
  if (!ctc) node.fail(path + ".head_list has no CTCHead, the only branch that is deployed");
  options.ctc.out_channels = static_cast<int>(classes);
  try {
    return make_multi_head(in, options);
  } catch (const train::ConfigError&) {
    throw;
  } catch (const train::Error& e) {
    node.fail(cat(path, ": ", e.what()));
  }
}

std::unique_ptr<Head> make_head(const ArchitectureConfig& a, int64_t in, int64_t classes,
                                ReadContext& context, bool with_guides) {
  const NamedSection& h = a.head;
  if (!h.present()) a.node.fail("Architecture has no Head");
  const auto made = [&](auto options, auto make) {
    return read_and_make(h.node, "Architecture.Head", context, options, make);
  };
  if (a.model_type == "det" && h.name == "DBHead")
    return made(DbHeadOptions{}, [&](DbHeadOptions o) {
      if (!with_guides) o.aux_in_channels = 0;
      return make_db_head(in, o);
    });
  if (a.model_type == "det" && h.name == "PFHeadLocal")
    return made(PfHeadOptions{}, [&](const PfHeadOptions& o) { return make_pf_head(in, o); });
  if (a.model_type == "cls" && h.name == "ClsHead")
    return made(ClsHeadOptions{}, [&](const ClsHeadOptions& o) { return make_cls_head(in, o); });
  if (a.model_type == "rec" && h.name == "CTCHead")
    return made(CtcHeadOptions{}, [&](CtcHeadOptions o) {
      o.out_channels = static_cast<int>(classes);
      return make_ctc_head(in, o);
    });
  if (a.model_type == "rec" && h.name == "MultiHead")
    return make_multi(h.node, in, classes, context, with_guides);
  const std::vector<std::string> known =
      a.model_type == "det"   ? std::vector<std::string>{"DBHead", "PFHeadLocal"}
      : a.model_type == "cls" ? std::vector<std::string>{"ClsHead"}
                              : std::vector<std::string>{"CTCHead", "MultiHead"};
  unknown(h, "head", cat("model_type ", a.model_type), known,
          {"EASTHead", "SASTHead", "PSEHead", "FCEHead", "AttentionHead", "SRNHead", "SARHead",
           "NRTRHead", "Transformer", "PRENHead", "RobustScannerHead"});
}

}  // namespace

std::unique_ptr<Model> build_model(const ArchitectureConfig& a, int64_t classes,
                                   ReadContext& context, bool with_guides) {
  if (!a.models.is_null())
    a.models.fail("distillation (Architecture.Models) is not built: train the student alone");
  if (a.model_type != "det" && a.model_type != "rec" && a.model_type != "cls")
    a.node.fail(cat("Architecture.model_type is '", a.model_type, "': it is det, rec or cls"));
  std::unique_ptr<Layer> transform = make_transform(a, context);
  std::unique_ptr<Backbone> backbone = make_backbone(a, context);
  std::unique_ptr<Neck> neck = make_neck(a, *backbone, context);
  if (!neck && a.model_type == "det") a.node.fail("Architecture has no Neck");
  const int64_t in = neck ? neck->channels() : backbone->channels().back();
  std::unique_ptr<Head> head = make_head(a, in, classes, context, with_guides);
  return std::make_unique<Model>(std::move(transform), std::move(backbone), std::move(neck),
                                 std::move(head));
}

}  // namespace ocr::models
