//! Entry points of the preload library that need the return address of their caller, or must pass on arguments without looking at them.
//! They are in assembly, because only assembly sees the return address and leaves any number of arguments in place. This module also
//! defines a thread-local word that two instructions can read.

/// Defines interposed functions in assembly.
#[doc(hidden)]
#[macro_export]
macro_rules! interposed {
    ($($(#[$doc:meta])* $name:ident { $($assembly:tt)* })*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            ::std::arch::naked_asm!($($assembly)*)
        }
    )* };
}

/// Defines interposed functions of one argument or none. `$inner` receives the argument, if any, and the return address.
#[macro_export]
macro_rules! with_caller {
    ($($(#[$doc:meta])* $name:ident => $inner:path;)*) => {
        $crate::interposed! { $($(#[$doc])* $name { "mov rsi, [rsp]", "jmp {inner}", inner = sym $inner })* }
    };
}

/// Calls `{inner}` with the first integer argument, if there is one, and the return address. Then jumps to the address that `{inner}`
/// returns, with all arguments unchanged.
#[doc(hidden)]
#[macro_export]
macro_rules! dispatch_asm {
    () => {
        // Saves the six argument registers; a seventh word keeps the stack aligned for the call. The first argument is still in its
        // register. The return address lies above the seven words.
        "push rdi
         push rsi
         push rdx
         push rcx
         push r8
         push r9
         sub rsp, 8
         mov rsi, [rsp + 56]
         call {inner}
         add rsp, 8
         pop r9
         pop r8
         pop rcx
         pop rdx
         pop rsi
         pop rdi
         jmp rax"
    };
}

/// Defines interposed functions with any integer arguments. `$inner` receives the first argument, if any, and the return address. It
/// returns the address at which execution continues, with all arguments unchanged.
#[macro_export]
macro_rules! dispatched {
    ($($(#[$doc:meta])* $name:ident => $inner:path;)*) => {
        $crate::interposed! { $($(#[$doc])* $name { $crate::dispatch_asm!(), inner = sym $inner })* }
    };
}

/// Defines a function as [`dispatched`] does, but without interposing: other code calls the function through a pointer.
#[macro_export]
macro_rules! dispatched_inside {
    ($name:ident => $inner:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            ::std::arch::naked_asm!($crate::dispatch_asm!(), inner = sym $inner)
        }
    };
}

/// Defines interposed functions as [`dispatched`] does, with a fast path: a function jumps to `$ours` directly if the word at offset `$at` of a
/// block of memory is not zero. The calling thread's word (see `thread_local_word!`) is the address of this memory; if it is 0, there is no fast
/// path.
#[macro_export]
macro_rules! ours_or_dispatched {
    (at $at:path; $($(#[$doc:meta])* $name:ident => $ours:path, else $inner:path;)*) => {
        // rax may be overwritten, because it holds no argument.
        $crate::interposed! { $($(#[$doc])* $name {
            "mov rax, qword ptr [rip + cox_preload_word@GOTTPOFF]",
            "mov rax, qword ptr fs:[rax]",
            "test rax, rax",
            "jz 2f",
            "cmp qword ptr [rax + {at}], 0",
            "jne {ours}",
            "2:",
            $crate::dispatch_asm!(),
            at = const $at,
            ours = sym $ours,
            inner = sym $inner,
        })* }
    };
}

/// Defines interposed functions with any integer arguments, each of which jumps to `$ours`. Before, it stores its return address at offset `$at` of a
/// block of memory. The calling thread's word (see `thread_local_word!`) is the address of this memory; if it is 0, nothing is stored.
#[macro_export]
macro_rules! noting_caller {
    (at $at:path; $($(#[$doc:meta])* $name:ident => $ours:path;)*) => {
        // rax and r11 may be overwritten, because they hold no arguments.
        $crate::interposed! { $($(#[$doc])* $name {
            "mov rax, qword ptr [rip + cox_preload_word@GOTTPOFF]",
            "mov rax, qword ptr fs:[rax]",
            "test rax, rax",
            "jz {ours}",
            "mov r11, [rsp]",
            "mov qword ptr [rax + {at}], r11",
            "jmp {ours}",
            at = const $at,
            ours = sym $ours,
        })* }
    };
}

/// Defines interposed functions that jump to the address in the variable `$place`.
#[macro_export]
macro_rules! by_pointer {
    ($($(#[$doc:meta])* $name:ident => $place:path;)*) => {
        $crate::interposed! { $($(#[$doc])* $name { "jmp qword ptr [rip + {place}]", place = sym $place })* }
    };
}

/// Defines a thread-local word, 0 at first, with the functions `word` and `set_word`. Use it at most once in a library.
///
/// Normally, finding a library's thread-local variable takes a function call (`__tls_get_addr`). This word lies at a fixed distance from the thread
/// pointer. A library may use such variables only if it is loaded at the program's start, and only a few bytes are available for them.
#[macro_export]
macro_rules! thread_local_word {
    () => {
        ::std::arch::global_asm!(
            ".pushsection .tbss, \"awT\", @nobits",
            ".p2align 3",
            ".globl cox_preload_word",
            ".hidden cox_preload_word",
            ".type cox_preload_word, @object",
            ".size cox_preload_word, 8",
            "cox_preload_word:",
            ".zero 8",
            ".popsection",
        );

        /// Returns the calling thread's value of the thread-local word.
        #[inline]
        pub(crate) fn word() -> usize {
            let word;
            // SAFETY: the code only reads the calling thread's `cox_preload_word`, which is defined above; each thread has one. Only `set_word`
            // writes it.
            unsafe {
                ::std::arch::asm!(
                    "mov {0}, qword ptr [rip + cox_preload_word@GOTTPOFF]",
                    "mov {0}, qword ptr fs:[{0}]",
                    out(reg) word,
                    options(nostack, preserves_flags, readonly),
                );
            }
            word
        }

        /// Sets the calling thread's value of the thread-local word.
        pub(crate) fn set_word(word: usize) {
            // SAFETY: the code writes only the calling thread's `cox_preload_word`, which is defined above.
            unsafe {
                ::std::arch::asm!(
                    "mov {0}, qword ptr [rip + cox_preload_word@GOTTPOFF]",
                    "mov qword ptr fs:[{0}], {1}",
                    out(reg) _,
                    in(reg) word,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}
