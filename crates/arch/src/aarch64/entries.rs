//! Placeholders for the entry points of the preload library: cox preloads nothing on this processor. A call prints the reason and ends the
//! process.

/// Defines a function that has the name of an interposed function and only calls [`refuse`](crate::refuse).
#[doc(hidden)]
#[macro_export]
macro_rules! refusing {
    ($($(#[$doc:meta])* $name:ident, $($leads_to:path),+;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// The same requirements as for the real function apply to the caller.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            $(let _ = &$leads_to;)+
            $crate::refuse()
        }
    )* };
}

/// Defines interposed functions. On aarch64, each function only ends the process. On x86-64, each passes its argument and its return address
/// to `$inner`.
#[macro_export]
macro_rules! with_caller {
    ($($(#[$doc:meta])* $name:ident => $inner:path;)*) => { $crate::refusing! { $($(#[$doc])* $name, $inner;)* } };
}

/// Defines interposed functions. On aarch64, each function only ends the process. On x86-64, each calls `$inner` and jumps to the address that
/// `$inner` returns.
#[macro_export]
macro_rules! dispatched {
    ($($(#[$doc:meta])* $name:ident => $inner:path;)*) => { $crate::refusing! { $($(#[$doc])* $name, $inner;)* } };
}

/// Defines a function that is not interposed. On aarch64, it only ends the process. On x86-64, it calls `$inner` and jumps to the address that
/// `$inner` returns.
#[macro_export]
macro_rules! dispatched_inside {
    ($name:ident => $inner:path) => {
        unsafe extern "C" fn $name() {
            let _ = &$inner;
            $crate::refuse()
        }
    };
}

/// Defines interposed functions. On aarch64, each function only ends the process. On x86-64, each jumps to `$ours`, or to the address that
/// `$inner` returns.
#[macro_export]
macro_rules! ours_or_dispatched {
    (at $at:path; $($(#[$doc:meta])* $name:ident => $ours:path, else $inner:path;)*) => {
        $crate::refusing! { $($(#[$doc])* $name, $at, $ours, $inner;)* }
    };
}

/// Defines interposed functions. On aarch64, each function only ends the process. On x86-64, each stores its return address and jumps to `$ours`.
#[macro_export]
macro_rules! noting_caller {
    (at $at:path; $($(#[$doc:meta])* $name:ident => $ours:path;)*) => {
        $crate::refusing! { $($(#[$doc])* $name, $at, $ours;)* }
    };
}

/// Defines interposed functions. On aarch64, each function only ends the process. On x86-64, each jumps to the address in the variable `$place`.
#[macro_export]
macro_rules! by_pointer {
    ($($(#[$doc:meta])* $name:ident => $place:path;)*) => { $crate::refusing! { $($(#[$doc])* $name, $place;)* } };
}

/// Defines a thread-local word, 0 at first, with the functions `word` and `set_word`. Use it at most once in a library.
#[macro_export]
macro_rules! thread_local_word {
    () => {
        ::std::thread_local! {
            static WORD: ::std::cell::Cell<usize> = const { ::std::cell::Cell::new(0) };
        }

        /// Returns the calling thread's value of the thread-local word.
        #[inline]
        pub(crate) fn word() -> usize {
            WORD.get()
        }

        /// Sets the calling thread's value of the thread-local word.
        pub(crate) fn set_word(word: usize) {
            WORD.set(word);
        }
    };
}
