/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Compiled only for the assertions in its header. */
#include "cox/preload.h"
