/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Compiled for the assertions in its header, and for the test that both sides look for a thread in the same places. */
#include "cox/umt.h"

__u32 cox_native_umt_place(__u32 tid, __u32 n)
{
	return cox_umt_place(tid, n);
}
