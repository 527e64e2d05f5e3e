// The function table of one instruction set.
#include "libtrain/cpu/kernels/tables.h"
#include "libtrain/cpu/kernels/tile.h"

#define OCR_STRING2(x) #x
#define OCR_STRING(x) OCR_STRING2(x)

namespace train::cpu::OCR_ISA_NS {

constinit const KernelTable kTable = {
    .name = OCR_STRING(OCR_ISA_NS),
    .width = W,
    .panel_max = kPanelMax,
    .halves = kHalves,
    .precision = Precision::kF32,
    .gemm = gemm,
    .gemm_scratch = gemm_scratch,
    .conv = conv,
    .conv_scratch = conv_scratch,
    .round_words = nullptr,
    .pair_rows = nullptr,
    .depthwise = depthwise,
    .pool = pool,
    .resize = resize,
    .gather_add = gather_add,
    .unary = unary,
    .binary = binary,
    .affine = affine,
    .reduce_cols = reduce_cols,
    .reduce_rows = reduce_rows,
    .softmax = softmax,
    .softmax_argmax = softmax_argmax,
    .layer_norm = layer_norm,
    .centred_square_rows = centred_square_rows,
    .transpose2d = transpose2d,
    .normalize_row = normalize_row,
    .pack_b = pack_b,
    .matmul = matmul,
    .attention = attention,
};

}  // namespace train::cpu::OCR_ISA_NS
