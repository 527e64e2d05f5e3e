#include "libtrain/config/training.h"

#include "libtrain/config/yaml.h"
#include "libtrain/core/error.h"

namespace train::config {

template <class V>
void GlobalConfig::describe(V& v) {
  v.field("use_gpu", use_gpu);
  v.field("distributed", distributed);
  v.field("debug", debug);
  v.field("epoch_num", epoch_num);
  v.field("log_smooth_window", log_smooth_window);
  v.field("print_batch_step", print_batch_step);
  v.field("save_model_dir", save_model_dir);
  v.field("save_epoch_step", save_epoch_step);
  v.field("eval_batch_step", eval_batch_step);
  v.field("eval_batch_epoch", eval_batch_epoch);
  v.field("cal_metric_during_train", cal_metric_during_train);
  v.field("pretrained_model", pretrained_model);
  v.field("checkpoints", checkpoints);
  v.field("save_inference_dir", save_inference_dir);
  v.field("infer_img", infer_img);
  v.field("save_res_path", save_res_path);
  v.field("model_name", model_name);
  v.field("d2s_train_image_shape", d2s_train_image_shape);
  v.field("calc_epoch_interval", calc_epoch_interval);
  v.field("seed", seed);
  v.field("character_dict_path", character_dict_path);
  v.field("max_text_length", max_text_length);
  v.field("use_space_char", use_space_char);
  v.field("infer_mode", infer_mode);
  v.field("label_list", label_list);
  v.field("use_amp", use_amp);
  v.field("amp_level", amp_level);
  v.field("amp_dtype", amp_dtype);
  v.field("amp_custom_black_list", amp_custom_black_list);
  v.field("amp_custom_white_list", amp_custom_white_list);
  v.field("scale_loss", scale_loss);
  v.field("use_dynamic_loss_scaling", use_dynamic_loss_scaling);
  v.field("use_sync_bn", use_sync_bn);
  v.field("find_unused_parameters", find_unused_parameters);
  v.field("use_ema", use_ema);
  v.field("ema_decay", ema_decay);
  v.field("ema_decay_type", ema_decay_type);
  // Of other devices, other loggers and old versions.
  for (const char* name : {"use_visualdl", "use_wandb", "use_xpu", "use_npu", "use_mlu", "use_gcu",
                           "use_mlflow", "load_static_weights", "character_type", "to_static",
                           "save_optimizer", "vis_font_path", "uniform_output_enabled"})
    v.ignore(name);
  // Arguments of algorithms that read Global instead of their own section.
  for (const char* name : {"rm_symbol", "num_heads", "class_path", "save_model_tail"})
    v.ignore(name, "has no effect here: no supported algorithm reads it");
}

template <class V>
void LearningRateConfig::describe(V& v) {
  v.field("name", name);
  v.field("learning_rate", learning_rate);
  v.field("warmup_epoch", warmup_epoch);
  v.field("warmup_steps", warmup_steps);
  v.field("last_epoch", last_epoch);
  v.field("step_size", step_size);
  v.field("gamma", gamma);
  v.field("decay_epochs", decay_epochs);
  v.field("values", values);
  v.field("epochs", epochs);
  v.field("factor", factor);
  v.field("end_lr", end_lr);
  v.field("power", power);
  v.field("max_lr", max_lr);
}

template <class V>
void RegularizerConfig::describe(V& v) {
  v.field("name", name);
  v.field("factor", factor);
}

template <class V>
void OptimizerConfig::describe(V& v) {
  v.field("name", name);
  v.field("beta1", beta1);
  v.field("beta2", beta2);
  v.field("epsilon", epsilon);
  v.field("momentum", momentum);
  v.field("rho", rho);
  v.field("weight_decay", weight_decay);
  v.field("no_weight_decay_name", no_weight_decay_name);
  v.field("one_dim_param_no_weight_decay", one_dim_param_no_weight_decay);
  v.field("clip_norm", clip_norm);
  v.field("clip_norm_global", clip_norm_global);
  v.field("lr", lr);
  v.field("regularizer", regularizer);
  v.ignore("multi_precision");  // master weights are always f32
  node = v.node();
}

template <class V>
void NamedSection::describe(V& v) {
  v.field("name", name);
  node = v.node();
  for (const Entry& e : node.entries()) v.known(e.key.text().c_str());  // the builder checks them
}

template <class V>
void ArchitectureConfig::describe(V& v) {
  v.field("model_type", model_type);
  v.field("algorithm", algorithm);
  v.field("name", name);
  v.field("Transform", transform);
  v.field("Backbone", backbone);
  v.field("Neck", neck);
  v.field("Head", head);
  v.field("Models", models);
  node = v.node();
  v.known("in_channels");  // the builders read these
  v.known("pretrained");
  v.known("freeze_params");
  v.known("return_all_feats");
}

template <class V>
void DatasetConfig::describe(V& v) {
  v.field("name", name);
  v.field("data_dir", data_dir);
  v.field("label_file_list", label_file_list);
  v.field("ratio_list", ratio_list);
  v.field("delimiter", delimiter);
  v.field("ext_op_transform_idx", ext_op_transform_idx);
  v.field("ds_width", ds_width);
  v.field("seed", seed);
  v.field("transforms", transforms);
  v.ignore("data_format");
  node = v.node();
}

template <class V>
void LoaderConfig::describe(V& v) {
  v.field("shuffle", shuffle);
  v.field("drop_last", drop_last);
  v.field("batch_size_per_card", batch_size_per_card);
  v.field("num_workers", num_workers);
  v.field("collate_fn", collate_fn);
  v.ignore("use_shared_memory");  // workers are threads
  if (batch_size_per_card < 1)
    v.known("batch_size_per_card")
        ->fail(cat("'", v.path_of("batch_size_per_card"), "' takes a number of at least 1, got ",
                   batch_size_per_card));
  if (num_workers < 0)
    v.known("num_workers")->fail(cat("'", v.path_of("num_workers"), "' cannot be negative"));
}

template <class V>
void SamplerConfig::describe(V& v) {
  v.field("name", name);
  v.field("scales", scales);
  v.field("first_bs", first_bs);
  v.field("fix_bs", fix_bs);
  v.field("divided_factor", divided_factor);
  v.field("is_training", is_training);
  v.field("ratio_wh", ratio_wh);
  v.field("max_w", max_w);
}

template <class V>
void SplitConfig::describe(V& v) {
  v.field("dataset", dataset);
  v.field("sampler", sampler);
  v.field("loader", loader);
}

template <class V>
void TrainingConfig::describe(V& v) {
  v.field("Global", global);
  v.required("Architecture", architecture);
  v.field("Loss", loss);
  v.field("Optimizer", optimizer);
  v.field("PostProcess", post_process);
  v.field("Metric", metric);
  v.field("Train", train);
  v.field("Eval", eval);
  v.ignore("profiler_options");
}

namespace {

TrainingConfig read_training(Node root, std::vector<std::string> warnings,
                             const TrainingReadOptions& options) {
  for (const std::string& o : options.overrides) apply_override(root, o);
  TrainingConfig config;
  ReadContext context{options.strict, std::move(warnings)};
  if (root.is_null()) root.fail("the configuration is empty");
  read_struct(root, "", context, config);
  config.root = std::move(root);
  config.warnings = std::move(context.warnings);
  return config;
}

}  // namespace

TrainingConfig load_training_config(const std::string& path, const TrainingReadOptions& options) {
  std::vector<std::string> warnings;
  Node root = load_yaml(path, &warnings);
  if (root.is_null()) root.set_place(path, 1, 1);
  return read_training(std::move(root), std::move(warnings), options);
}

TrainingConfig parse_training_config(std::string_view text, const std::string& name,
                                     const TrainingReadOptions& options) {
  std::vector<std::string> warnings;
  Node root = parse_yaml(text, name, &warnings);
  if (root.is_null()) root.set_place(name, 1, 1);
  return read_training(std::move(root), std::move(warnings), options);
}

}  // namespace train::config
