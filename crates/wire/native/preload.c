/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Compiled for the assertions of its header. */
#include "cox/preload.h"
