//! Switching between the contexts of programs in user space, and the system calls of the code that does it.

/// A context that does not run. Its callee-saved registers are on its stack; or, if `frame` is not 0, all its registers are in a signal frame.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Context {
    /// The stack pointer.
    pub stack_pointer: u64,
    /// Address of the thread-local storage (FS base).
    pub tls: u64,
    /// Control and status of the floating-point units: MXCSR, and the x87 control word. Callees preserve the control bits (System V ABI, section 3.2.3).
    /// The status bits are the exceptions that have occurred, which a program can ask for (fetestexcept(3)).
    pub sse_control: u32,
    /// See `sse_control`.
    pub x87_control: u16,
    /// See `sse_control`. The x87 unit has its status in a word of its own.
    pub x87_status: u16,
    /// Address of the `ucontext` in a signal frame, from which rt_sigreturn(2) continues; 0: none.
    pub frame: u64,
}

/// Where the stack of a saved context has the address at which it continues, bytes above the stack pointer (see `switch`).
pub const CONTINUES_AT: u64 = 48;
/// Where the stack of a context that yields has the address of data that its program wants soon, bytes below the stack pointer (see `user_yield`).
pub const WANTS_BELOW: u64 = 8;

/// Whether user space may set the FS base on this machine: Linux 5.9 with a processor that has FSGSBASE.
#[must_use]
pub fn has_fast_tls(hwcap2: u64) -> bool {
    // HWCAP2_FSGSBASE in the kernel's asm/hwcap2.h.
    hwcap2 & 2 != 0
}

/// Pushes the registers that a callee preserves.
#[doc(hidden)]
#[macro_export]
macro_rules! push_registers_asm {
    () => {
        "push rbp
         push rbx
         push r12
         push r13
         push r14
         push r15"
    };
}

/// The opposite of `push_registers_asm`.
#[doc(hidden)]
#[macro_export]
macro_rules! pop_registers_asm {
    () => {
        "pop r15
         pop r14
         pop r13
         pop r12
         pop rbx
         pop rbp"
    };
}

/// Says in the unwinding table where `push_registers_asm` has stored the registers, below the return address.
#[doc(hidden)]
#[macro_export]
macro_rules! describe_registers_asm {
    () => {
        ".cfi_offset rbp, -16
         .cfi_offset rbx, -24
         .cfi_offset r12, -32
         .cfi_offset r13, -40
         .cfi_offset r14, -48
         .cfi_offset r15, -56"
    };
}

/// Saves the running context, whose registers have been pushed, in the one at rdi. Changes rax.
#[doc(hidden)]
#[macro_export]
macro_rules! save_context_asm {
    () => {
        "mov [rdi + {stack_pointer}], rsp
         stmxcsr [rdi + {sse}]
         fnstcw [rdi + {x87}]
         fnstsw ax
         mov [rdi + {x87} + 2], ax"
    };
}

/// Loads control and status of the x87 unit from the context at rsi. Changes rax, and memory from 64 to 36 bytes below the stack pointer. One instruction
/// loads both words: a control word that lets exceptions trap would do so at once if it were loaded before the status of the same program.
#[doc(hidden)]
#[macro_export]
macro_rules! load_x87_asm {
    () => {
        "fnstenv [rsp - 64]
         mov ax, [rsi + {x87}]
         mov [rsp - 64], ax
         mov ax, [rsi + {x87} + 2]
         mov [rsp - 60], ax
         fldenv [rsp - 64]"
    };
}

/// Exchanges the context at rdi, which has been saved, for the one at rsi, but for the registers on its stack. Needs `load_control_words_asm` elsewhere in
/// the function.
#[doc(hidden)]
#[macro_export]
macro_rules! exchange_contexts_asm {
    () => {
        "mov rax, [rsi + {tls}]
         wrfsbase rax
         cmp qword ptr [rsi + {frame}], 0
         jne {continue_frame}
         mov eax, [rdi + {sse}]
         cmp eax, [rsi + {sse}]
         jne 2f
         3:
         movzx eax, word ptr [rdi + {x87}]
         cmp ax, [rsi + {x87}]
         jne 4f
         movzx eax, word ptr [rdi + {x87} + 2]
         xor ax, [rsi + {x87} + 2]
         test al, 0x7f
         jne 4f
         5:
         mov rsp, [rsi + {stack_pointer}]"
    };
}

/// The rare parts of `exchange_contexts_asm`. Loading control and status costs more than the rest of the switch, so that they are loaded only if they
/// differ. The x87 unit's status has the exceptions in its lowest seven bits. The others say how the last comparison came out, which no call preserves.
#[doc(hidden)]
#[macro_export]
macro_rules! load_control_words_asm {
    () => {
        ::std::concat!(
            "2:
             ldmxcsr [rsi + {sse}]
             jmp 3b
             4:
            ",
            $crate::load_x87_asm!(),
            "
             jmp 5b"
        )
    };
}

/// Asks the processor to have the memory at an address in its caches soon. Any number is allowed.
#[inline(always)]
pub fn prefetch(address: u64) {
    // SAFETY: a hint, which never faults.
    unsafe {
        std::arch::asm!("prefetcht0 byte ptr [{0}]", in(reg) address, options(nostack, readonly, preserves_flags))
    };
}

/// Asks the processor to have the memory at an address in its caches soon, and in no other's, because it will be changed. Any number is allowed.
#[inline(always)]
pub fn prefetch_for_writing(address: u64) {
    // SAFETY: a hint, which never faults.
    unsafe {
        std::arch::asm!("prefetchw byte ptr [{0}]", in(reg) address, options(nostack, readonly, preserves_flags))
    };
}

/// Defines `switch`, which exchanges one context for another, and `tls`. The crate that uses the macro needs `libc`.
#[macro_export]
macro_rules! context_switch {
    () => {
        /// Saves the running context in `from`, and continues `to`.
        ///
        /// ```text
        /// stack of a saved context, from its stack pointer upwards:
        ///   0 r15 | 8 r14 | 16 r13 | 24 r12 | 32 rbx | 40 rbp | 48 return address
        /// ```
        ///
        /// # Safety
        /// Both must be valid, and `to` must not run, and not be continued by anybody else. `from` is complete only when `to` runs on another stack.
        #[unsafe(naked)]
        #[unsafe(link_section = "cox_gate")]
        pub(crate) unsafe extern "C" fn switch(from: *mut $crate::Context, to: *mut $crate::Context) {
            ::std::arch::naked_asm!(
                $crate::push_registers_asm!(),
                $crate::save_context_asm!(),
                $crate::exchange_contexts_asm!(),
                $crate::pop_registers_asm!(),
                "ret",
                $crate::load_control_words_asm!(),
                stack_pointer = const ::std::mem::offset_of!($crate::Context, stack_pointer),
                tls = const ::std::mem::offset_of!($crate::Context, tls),
                sse = const ::std::mem::offset_of!($crate::Context, sse_control),
                x87 = const ::std::mem::offset_of!($crate::Context, x87_control),
                frame = const ::std::mem::offset_of!($crate::Context, frame),
                continue_frame = sym continue_frame,
            )
        }

        /// Continues the context in rsi from its signal frame. The kernel restores all registers but the FS base.
        ///
        /// # Safety
        /// Only for the code that switches.
        #[unsafe(naked)]
        #[unsafe(link_section = "cox_gate")]
        pub(crate) unsafe extern "C" fn continue_frame() {
            ::std::arch::naked_asm!(
                "mov rsp, [rsi + {frame}]",
                "mov qword ptr [rsi + {frame}], 0",
                "mov eax, {sigreturn}",
                "syscall",
                "ud2",
                frame = const ::std::mem::offset_of!($crate::Context, frame),
                sigreturn = const ::libc::SYS_rt_sigreturn,
            )
        }

        /// Reads below the stack pointer. A stack that is about to overflow faults here, and not where the caller has begun to change things.
        #[inline(always)]
        #[allow(dead_code, reason = "not every user of the macro has something to protect")]
        pub(crate) fn touch_stack() {
            // SAFETY: if there is no memory, the program faults, as it would when it goes on.
            unsafe { ::std::arch::asm!("test byte ptr [rsp - 1024], 0", options(nostack, readonly)) };
        }

        /// Returns the address of the thread-local storage.
        #[inline(always)]
        pub(crate) fn tls() -> u64 {
            let base;
            // SAFETY: only reads a register. Callers have checked `has_fast_tls`.
            unsafe { ::std::arch::asm!("rdfsbase {0}", out(reg) base, options(nostack, preserves_flags)) };
            base
        }
    };
}

/// Defines what `context_switch` does, and the functions around switching that make system calls where syscall user dispatch is armed: `load`, `park`,
/// `call`, `return_from_signal`, `set_task_address`, `task_word`, and `gate`. They are in a section of their own, `cox_gate`, whose system calls are not dispatched. The crate that
/// uses the macro needs `libc`.
#[macro_export]
macro_rules! user_contexts {
    () => {
        $crate::context_switch!();

        unsafe extern "C" {
            // The linker defines these for a section whose name is a C identifier.
            static __start_cox_gate: u8;
            static __stop_cox_gate: u8;
        }

        /// Returns the addresses of the code whose system calls are not dispatched.
        pub(crate) fn gate() -> ::std::ops::Range<u64> {
            (&raw const __start_cox_gate) as u64..(&raw const __stop_cox_gate) as u64
        }

        /// Continues `to`, and forgets the running context.
        ///
        /// # Safety
        /// As for `switch`.
        #[unsafe(naked)]
        #[unsafe(link_section = "cox_gate")]
        pub(crate) unsafe extern "C" fn load(to: *mut $crate::Context) -> ! {
            ::std::arch::naked_asm!(
                "mov rsi, rdi",
                "mov rax, [rsi + {tls}]",
                "wrfsbase rax",
                "cmp qword ptr [rsi + {frame}], 0",
                "jne {continue_frame}",
                // A signal handler has control words of its own, so that they are loaded without comparing.
                "ldmxcsr [rsi + {sse}]",
                $crate::load_x87_asm!(),
                "mov rsp, [rsi + {stack_pointer}]",
                $crate::pop_registers_asm!(),
                "ret",
                stack_pointer = const ::std::mem::offset_of!($crate::Context, stack_pointer),
                tls = const ::std::mem::offset_of!($crate::Context, tls),
                sse = const ::std::mem::offset_of!($crate::Context, sse_control),
                x87 = const ::std::mem::offset_of!($crate::Context, x87_control),
                frame = const ::std::mem::offset_of!($crate::Context, frame),
                continue_frame = sym continue_frame,
            )
        }

        // Signals reach a program in the two functions with unwinding tables (`.cfi_`): when its context comes home, and when it waits for others. The context
        // may have been left in a function that `yield_now` has called, which therefore has one, too.

        /// Continues `to` as [`load`] does, and blocks exactly the signals in `mask`. Signals that arrive then find its stack and its thread-local storage; its
        /// registers are on the stack until their handlers have returned.
        /// In a signal frame, the mask is the frame's.
        ///
        /// # Safety
        /// As for `switch`.
        #[unsafe(naked)]
        #[unsafe(link_section = "cox_gate")]
        pub(crate) unsafe extern "C" fn load_with_mask(to: *mut $crate::Context, mask: u64) -> ! {
            ::std::arch::naked_asm!(
                ".cfi_startproc",
                "mov rdx, rsi",
                "mov rsi, rdi",
                "mov rax, [rsi + {tls}]",
                "wrfsbase rax",
                "cmp qword ptr [rsi + {frame}], 0",
                "jne {continue_frame}",
                "ldmxcsr [rsi + {sse}]",
                $crate::load_x87_asm!(),
                "mov rsp, [rsi + {stack_pointer}]",
                "push rdx",
                "mov eax, {sigprocmask}",
                "mov edi, {set_mask}",
                "mov rsi, rsp",
                // Until the end, rsi is 64 bytes below the frame of the function that continues, and its registers are in memory.
                ".cfi_def_cfa rsi, 64",
                $crate::describe_registers_asm!(),
                "xor edx, edx",
                "mov r10d, 8",
                "syscall",
                "pop rdx",
                $crate::pop_registers_asm!(),
                "ret",
                ".cfi_endproc",
                stack_pointer = const ::std::mem::offset_of!($crate::Context, stack_pointer),
                tls = const ::std::mem::offset_of!($crate::Context, tls),
                sse = const ::std::mem::offset_of!($crate::Context, sse_control),
                x87 = const ::std::mem::offset_of!($crate::Context, x87_control),
                frame = const ::std::mem::offset_of!($crate::Context, frame),
                sigprocmask = const ::libc::SYS_rt_sigprocmask,
                set_mask = const ::libc::SIG_SETMASK,
                continue_frame = sym continue_frame,
            )
        }

        /// Saves the running context in `from`, and calls `then` with it on another stack, which ends at `stack` (a multiple of 16).
        ///
        /// # Safety
        /// Both must be valid, and nothing else may use the stack.
        #[unsafe(naked)]
        #[unsafe(link_section = "cox_gate")]
        pub(crate) unsafe extern "C" fn park(
            from: *mut $crate::Context,
            stack: u64,
            then: unsafe extern "C" fn(*mut $crate::Context) -> !,
        ) {
            ::std::arch::naked_asm!(
                $crate::push_registers_asm!(),
                $crate::save_context_asm!(),
                "rdfsbase rax",
                "mov [rdi + {tls}], rax",
                "mov rsp, rsi",
                "xor ebp, ebp",
                "call rdx",
                "ud2",
                stack_pointer = const ::std::mem::offset_of!($crate::Context, stack_pointer),
                tls = const ::std::mem::offset_of!($crate::Context, tls),
                sse = const ::std::mem::offset_of!($crate::Context, sse_control),
                x87 = const ::std::mem::offset_of!($crate::Context, x87_control),
            )
        }

        /// Makes a system call. Returns what the kernel returns: an error is a number from -4095 to -1.
        ///
        /// # Safety
        /// Those of the system call.
        #[unsafe(naked)]
        #[unsafe(link_section = "cox_gate")]
        pub(crate) unsafe extern "C" fn call(number: i64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64 {
            ::std::arch::naked_asm!(
                ".cfi_startproc",
                "mov rax, rdi",
                "mov rdi, rsi",
                "mov rsi, rdx",
                "mov rdx, rcx",
                "mov r10, r8",
                "mov r8, r9",
                "mov r9, [rsp + 8]",
                "syscall",
                "ret",
                ".cfi_endproc",
            )
        }

        /// What a signal handler returns to.
        ///
        /// # Safety
        /// Only the kernel's signal frames refer to it.
        #[unsafe(naked)]
        #[unsafe(link_section = "cox_gate")]
        pub(crate) unsafe extern "C" fn return_from_signal() {
            ::std::arch::naked_asm!("mov eax, {sigreturn}", "syscall", "ud2", sigreturn = const ::libc::SYS_rt_sigreturn)
        }

        /// Makes the kernel keep this address for the calling task (its GS base). Returns what the kernel returns.
        ///
        /// # Safety
        /// Nothing else in the task may use the GS base.
        pub(crate) unsafe fn set_task_address(address: u64) -> i64 {
            // ARCH_SET_GS of the kernel's asm/prctl.h.
            const SET_GS: u64 = 0x1001;
            // SAFETY: numbers only.
            unsafe { call(::libc::SYS_arch_prctl, SET_GS, address, 0, 0, 0, 0) }
        }

        /// Returns the word at the address that the kernel keeps for this task (its GS base). The address must have been set.
        #[inline(always)]
        pub(crate) fn task_word() -> u64 {
            let word;
            // SAFETY: reads one word. Every task that runs this code has a GS base. The compiler may not reuse an earlier result: a context moves
            // from task to task.
            unsafe { ::std::arch::asm!("mov {0}, qword ptr gs:[0]", out(reg) word, options(nostack, preserves_flags)) };
            word
        }
    };
}

/// Two contexts: the second one is left for the first one. If the first one is null, nothing is to be done.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Exchange {
    /// The context to be continued.
    pub to: *mut Context,
    /// The context that runs.
    pub from: *mut Context,
}

/// Defines `yield_now`, which a program calls. If the word at `kind_at` behind the address of the calling task (see `set_task_address`) is `carrier`, it
/// calls `choose` with that address, and exchanges the contexts; otherwise, it calls `elsewhere`. The crate that uses the macro needs `user_contexts`, in
/// the same module or imported.
#[macro_export]
macro_rules! user_yield {
    (kind_at: $kind_at:expr, carrier: $carrier:expr, choose: $choose:path, elsewhere: $elsewhere:path, frame: $continue_frame:path) => {
        /// Lets others run. The argument is the address of data that the program reads as soon as it continues; any number is allowed.
        ///
        /// # Safety
        /// Called by programs.
        #[unsafe(naked)]
        #[unsafe(link_section = "cox_gate")]
        unsafe extern "C" fn yield_now(_wanted: *const u8) {
            ::std::arch::naked_asm!(
                ".cfi_startproc",
                // A stack that is about to overflow faults here. Afterwards, queues have changed, and the task may be another one.
                "test byte ptr [rsp - 1024], 0",
                "mov rax, rdi",
                "mov rdi, qword ptr gs:[0]",
                "test rdi, rdi",
                "jz {elsewhere}",
                "cmp dword ptr [rdi + {kind_at}], {carrier}",
                "jne {elsewhere}",
                $crate::push_registers_asm!(),
                // Stays below the stack pointer of the saved context.
                "push rax",
                ".cfi_def_cfa_offset 64",
                $crate::describe_registers_asm!(),
                "call {choose}",
                "add rsp, 8",
                ".cfi_def_cfa_offset 56",
                "test rax, rax",
                "jz 6f",
                "mov rsi, rax",
                "mov rdi, rdx",
                $crate::save_context_asm!(),
                $crate::exchange_contexts_asm!(),
                $crate::pop_registers_asm!(),
                // The processor predicts that `ret` returns to the last call, which another program has made. It predicts a jump by what came before.
                "pop rcx",
                "jmp rcx",
                // The callee has preserved the registers.
                "6:",
                "add rsp, 48",
                ".cfi_def_cfa_offset 8",
                "ret",
                $crate::load_control_words_asm!(),
                ".cfi_endproc",
                kind_at = const $kind_at,
                carrier = const $carrier,
                choose = sym $choose,
                elsewhere = sym $elsewhere,
                continue_frame = sym $continue_frame,
                stack_pointer = const ::std::mem::offset_of!($crate::Context, stack_pointer),
                tls = const ::std::mem::offset_of!($crate::Context, tls),
                sse = const ::std::mem::offset_of!($crate::Context, sse_control),
                x87 = const ::std::mem::offset_of!($crate::Context, x87_control),
                frame = const ::std::mem::offset_of!($crate::Context, frame),
            )
        }
    };
}
