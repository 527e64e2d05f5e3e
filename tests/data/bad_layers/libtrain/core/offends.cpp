// Breaks the rules that scripts/check_layers.sh checks: the test expects it to say so. Not
// compiled.
#include "libtrain/graph/graph.h"
