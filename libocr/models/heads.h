// The heads by name: what a net says of an image.
#pragma once
#include <memory>

#include "libocr/models/necks.h"
#include "libocr/models/net.h"
#include "libocr/models/nrtr.h"

namespace ocr::models {

/// Differentiable binarisation (Liao et al. 2020). Evaluation computes the probability map alone.
struct DbHeadOptions {
  double k = 50;            // steepness of the binary map
  int aux_in_channels = 0;  // heads of a training at the neck's levels, of so many channels: v6
  template <class V>
  void describe(V& v) {
    v.field("k", k);
    v.ignore("fix_nan");
    v.field("aux_in_channels", aux_in_channels);
  }
};
std::unique_ptr<Head> make_db_head(int64_t in, const DbHeadOptions& options);

/// DB with a second map, refined from the first: what is deployed is the mean of both. Of PP-OCRv4
/// and v5 server.
struct PfHeadOptions {
  double k = 50;
  std::string mode = "small";  // or "large": the refinement's width
  template <class V>
  void describe(V& v) {
    v.field("k", k);
    v.field("mode", mode);
  }
};
std::unique_ptr<Head> make_pf_head(int64_t in, const PfHeadOptions& options);

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
