// The heads by name: what a net says of an image.
#pragma once
#include <memory>

#include "libocr/models/necks.h"
#include "libocr/models/net.h"
#include "libocr/models/nrtr.h"

namespace ocr::models {

/// Differentiable binarisation (Liao et al. 2020). Evaluation computes the probability map alone.
struct DbHeadOptions {
  double k = 50;  // steepness of the binary map
  template <class V>
  void describe(V& v) {
    v.field("k", k);
    v.ignore("fix_nan");
    v.ignore("aux_in_channels", "the auxiliary detection heads are not built");
  }
};
std::unique_ptr<Head> make_db_head(int64_t in, const DbHeadOptions& options);

/// The mean of the features, a linear layer, softmax.
struct ClsHeadOptions {
  int class_dim = 2;
  template <class V>
  void describe(V& v) {
    v.field("class_dim", class_dim);
    v.ignore("in_channels");
  }
};
std::unique_ptr<Head> make_cls_head(int64_t in, const ClsHeadOptions& options);

/// Scores of every class and time step, for CTC (Graves et al. 2006); class 0 is the blank.
struct CtcHeadOptions {
  int out_channels = 0;  // 0: from the dictionary
  double fc_decay = .0004;
  int mid_channels = 0;                      // a second linear layer before the last
  bool use_guide = false;                    // a convolution along the sequence before them
  std::string guide_layer_type = "default";  // or "ppocrv6_tiny"
  template <class V>
  void describe(V& v) {
    v.field("out_channels", out_channels);
    v.field("fc_decay", fc_decay);
    v.field("mid_channels", mid_channels);
    v.field("use_guide", use_guide);
    v.ignore("return_feats");
    v.field("guide_layer_type", guide_layer_type);
  }
};
std::unique_ptr<Head> make_ctc_head(int64_t in, const CtcHeadOptions& options);

/// A CTC branch with its own neck, and NRTR's decoder, which guides the training: it reads the
/// backbone's features through a linear layer, and with `use_guide` it alone teaches the backbone.
/// PaddleOCR's other guide, SAR, is not built.
struct MultiHeadOptions {
  SequenceOptions ctc_neck;
  CtcHeadOptions ctc;
  std::optional<NrtrOptions> nrtr;
  bool use_pos = false;  // learnt positions of the columns, before the decoder
};
std::unique_ptr<Head> make_multi_head(int64_t in, const MultiHeadOptions& options);

}  // namespace ocr::models
