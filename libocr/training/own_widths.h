// Evaluation of a recogniser on lines of their own widths, as its exported model reads them.
#pragma once
#include <functional>

#include "libocr/data/dataset.h"
#include "libocr/models/model.h"
#include "libocr/postprocess/ctc.h"
#include "libocr/postprocess/recognition_resize.h"

namespace ocr {

/// Lines whose pictures are in memory at a time.
constexpr int64_t kOwnWidthWindow = 512;

/// Reads the lines of `data` with `model` (in evaluation) and hands each with its text to `tell`,
/// in order: the sample as decoded, its label as written. Sizes, normalisation and lost spaces are
/// those of `ocr infer`, labels are not looked at; lines of equal width go through the net
/// together. (A line of over 3200 columns is read at once; `ocr infer` cuts it.) Takes the
/// samples whose index is `rank` modulo `ranks`; returns how many of them could not be read.
int64_t read_at_own_widths(const models::Model& model, train::Eager& eager, const OcrDataset& data,
                           const RecognitionResizeOptions& resize, const Dictionary& dictionary,
                           int rank, int ranks,
                           const std::function<void(const Sample&, const CtcLine&)>& tell);

}  // namespace ocr
