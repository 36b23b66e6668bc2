// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "group.h"

const char *const group_wait_names[] = {"futex", "spin", "yield", NULL};

struct layout layout_of(size_t rank, size_t ranks)
{
    size_t rows = 1;
    for (size_t divisor = 1; divisor * divisor <= ranks; divisor++)
        if (ranks % divisor == 0)
            rows = divisor;
    struct layout layout = {.columns = ranks / rows, .rows = rows};
    layout.column = rank % layout.columns;
    layout.row = rank / layout.columns;
    layout.has[WEST] = layout.column > 0;
    layout.has[EAST] = layout.column + 1 < layout.columns;
    layout.has[NORTH] = layout.row > 0;
    layout.has[SOUTH] = layout.row + 1 < layout.rows;
    layout.neighbour[WEST] = rank - 1;
    layout.neighbour[EAST] = rank + 1;
    layout.neighbour[NORTH] = rank - layout.columns;
    layout.neighbour[SOUTH] = rank + layout.columns;
    return layout;
}
