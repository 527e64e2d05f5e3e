// PaddleOCR's training configuration as structs: what every training needs. What a model, loss or
// transform takes is kept as a node, and read by the code that builds it.
#pragma once
#include <string>
#include <vector>

#include "libtrain/config/reader.h"

namespace train::config {

/// `Global`. An empty path means none.
struct GlobalConfig {
  bool use_gpu = true, distributed = false, debug = false;
  int epoch_num = 1, log_smooth_window = 20, print_batch_step = 10;
  std::string save_model_dir = "./output";
  int save_epoch_step = 0;               // 0: only latest and best
  std::vector<int64_t> eval_batch_step;  // [every] or [start, every]; empty: after each epoch
  int eval_batch_epoch = 0;              // evaluate every so many epochs instead
  bool cal_metric_during_train = false;
  std::string pretrained_model, checkpoints, save_inference_dir, infer_img, save_res_path;
  std::string model_name;
  std::vector<int> d2s_train_image_shape;
  int calc_epoch_interval = 1;
  int64_t seed = 1024;

  std::string character_dict_path;
  int max_text_length = 25;
  bool use_space_char = false, infer_mode = false;
  std::vector<std::string> label_list;

  bool use_amp = false;
  std::string amp_level = "O2", amp_dtype = "float16";
  std::vector<std::string> amp_custom_black_list, amp_custom_white_list;
  double scale_loss = 1.0;
  bool use_dynamic_loss_scaling = false;
  bool use_sync_bn = false, find_unused_parameters = false;
  bool use_ema = false;
  double ema_decay = 0.9998;
  std::string ema_decay_type = "threshold";

  template <class V>
  void describe(V& v);
};

/// `Optimizer.lr`.
struct LearningRateConfig {
  std::string name = "Const";
  double learning_rate = 0.001;
  double warmup_epoch = 0;
  int64_t warmup_steps = 0;
  int64_t last_epoch = -1;
  // Of single schedules: Step (step_size epochs, gamma), Piecewise (decay_epochs, values), Linear
  // and Polynomial (epochs, end_lr, power), DecayLearningRate (factor), OneCycle (max_lr), ...
  double step_size = 0, gamma = 0.1;
  std::vector<double> decay_epochs, values;
  std::optional<double> epochs, factor, end_lr, power, max_lr;

  template <class V>
  void describe(V& v);
};

struct RegularizerConfig {
  std::string name;  // L1, L2; empty: none
  double factor = 0;

  template <class V>
  void describe(V& v);
};

struct OptimizerConfig {
  std::string name = "Adam";
  double beta1 = 0.9, beta2 = 0.999;
  std::optional<double> epsilon, momentum, rho, weight_decay;
  std::string no_weight_decay_name;  // words, separated by spaces
  bool one_dim_param_no_weight_decay = false;
  double clip_norm = 0, clip_norm_global = 0;  // 0: no clipping
  LearningRateConfig lr;
  RegularizerConfig regularizer;
  Node node;  // the whole section, for its places

  template <class V>
  void describe(V& v);
};

/// A section that names a class: `name`, the rest belongs to the code that builds it.
struct NamedSection {
  std::string name;
  Node node;  // the whole map, `name` included; null when the section is absent
  bool present() const { return !node.is_null(); }

  template <class V>
  void describe(V& v);
};

struct ArchitectureConfig {
  std::string model_type, algorithm, name;
  NamedSection transform, backbone, neck, head;
  Node models;  // of a distillation
  Node node;

  template <class V>
  void describe(V& v);
};

struct DatasetConfig {
  std::string name = "SimpleDataSet";
  std::vector<std::string> data_dir;  // several only for LMDB
  std::vector<std::string> label_file_list;
  std::vector<double> ratio_list;  // empty: all of each file
  std::string delimiter = "\t";
  std::optional<int> ext_op_transform_idx;  // 2 in label files, 1 in LMDB
  bool ds_width = false;
  std::optional<int64_t> seed;
  std::vector<NamedNode> transforms;
  Node node;
  bool present() const { return !node.is_null(); }

  template <class V>
  void describe(V& v);
};

struct LoaderConfig {
  bool shuffle = false, drop_last = false;
  int batch_size_per_card = 1, num_workers = 0;
  std::string collate_fn;

  template <class V>
  void describe(V& v);
};

struct SamplerConfig {
  std::string name;  // empty: none
  std::vector<std::vector<int>> scales;
  int first_bs = 128;
  bool fix_bs = true;
  std::vector<int> divided_factor{8, 16};
  bool is_training = true;
  double ratio_wh = 0.8, max_w = 480;

  template <class V>
  void describe(V& v);
};

struct SplitConfig {
  DatasetConfig dataset;
  SamplerConfig sampler;
  LoaderConfig loader;
  bool present() const { return dataset.present(); }

  template <class V>
  void describe(V& v);
};

struct TrainingConfig {
  GlobalConfig global;
  ArchitectureConfig architecture;
  NamedSection loss, post_process, metric;
  OptimizerConfig optimizer;
  SplitConfig train, eval;
  Node root;  // as read, with the overrides; to_yaml(root) is `config.yml`
  std::vector<std::string> warnings;

  template <class V>
  void describe(V& v);
};

struct TrainingReadOptions {
  std::vector<std::string> overrides;  // of -o
  bool strict = false;                 // unknown keys are errors
};

/// Reads a configuration file. Throws ConfigError with file, line, column and the nearest key.
TrainingConfig load_training_config(const std::string& path,
                                    const TrainingReadOptions& options = {});
/// The same from text; `name` stands for the file.
TrainingConfig parse_training_config(std::string_view text, const std::string& name,
                                     const TrainingReadOptions& options = {});

}  // namespace train::config
