//! The doors of this processor: nobody has written them, and cox preloads nothing here. Whoever goes through one hears so, and the process ends.

/// Defines what [`refuse`](crate::refuse)s under the name of an interposed function.
#[doc(hidden)]
#[macro_export]
macro_rules! refusing {
    ($($(#[$doc:meta])* $name:ident, $($leads_to:path),+;)*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the real one's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            $(let _ = &$leads_to;)+
            $crate::refuse()
        }
    )* };
}

/// Interposed functions that would have their argument and their return address.
#[macro_export]
macro_rules! with_caller {
    ($($(#[$doc:meta])* $name:ident => $inner:path;)*) => { $crate::refusing! { $($(#[$doc])* $name, $inner;)* } };
}

/// Interposed functions that would ask where to go on.
#[macro_export]
macro_rules! by_way_of {
    ($($(#[$doc:meta])* $name:ident => $inner:path;)*) => { $crate::refusing! { $($(#[$doc])* $name, $inner;)* } };
}

/// A function that would ask where to go on.
#[macro_export]
macro_rules! by_way_of_inside {
    ($name:ident => $inner:path) => {
        unsafe extern "C" fn $name() {
            let _ = &$inner;
            $crate::refuse()
        }
    };
}

/// Interposed functions that would lead to one or the other.
#[macro_export]
macro_rules! ours_or_by_way_of {
    (at $at:path; $($(#[$doc:meta])* $name:ident => $ours:path, else $inner:path;)*) => {
        $crate::refusing! { $($(#[$doc])* $name, $at, $ours, $inner;)* }
    };
}

/// Interposed functions that would go where a variable says.
#[macro_export]
macro_rules! by_place {
    ($($(#[$doc:meta])* $name:ident => $place:path;)*) => { $crate::refusing! { $($(#[$doc])* $name, $place;)* } };
}

/// Defines a word that each thread has, 0 at first, with the functions `word` and `set_word`. Once in a library.
#[macro_export]
macro_rules! own_word {
    () => {
        ::std::thread_local! {
            static WORD: ::std::cell::Cell<usize> = const { ::std::cell::Cell::new(0) };
        }

        /// The calling thread's word.
        #[inline]
        fn word() -> usize {
            WORD.get()
        }

        /// Sets the calling thread's word.
        fn set_word(word: usize) {
            WORD.set(word);
        }
    };
}
