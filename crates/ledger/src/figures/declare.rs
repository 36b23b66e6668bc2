//! The macro that declares structs of figures.

/// Declares a struct. Some of its fields are figures. The declaration defines how these are written, read, described, added and printed.
///
/// The test below this macro is an example.
///
/// A figure has a type, a rule of [`figures::add`](crate::figures::add), and optionally a heading and the backends that see it. A derived figure has
/// a heading, the backends that see it, and an expression over the other figures; it is a method of the struct and is not in the JSON. The generated
/// module contains a [`Figure`](crate::figures::Figure) under each name, and the list of all figures.
#[macro_export]
macro_rules! figures {
    (
        $(#[$about:meta])*
        pub struct $Name:ident { $( $(#[$note:meta])* pub $field:ident: $Field:ty, )* }
        figures of $module:ident {
            $(
                $(#[doc = $meaning:literal])+ $(#[serde($($serde:tt)*)])?
                $figure:ident: $Figure:ty, $rule:ident $(, $label:literal, $seen:expr)?;
            )*
        }
        $( derived {
            $(
                $(#[doc = $derived_meaning:literal])+
                $derived:ident, $derived_label:literal, $derived_seen:expr, |$of:ident| $value:expr;
            )*
        } )?
    ) => {
        $(#[$about])*
        pub struct $Name {
            $( $(#[$note])* pub $field: $Field, )*
            $( $(#[doc = $meaning])+ $(#[serde($($serde)*)])? pub $figure: $Figure, )*
        }

        impl $Name {
            /// Adds the figures of `other`, each by its own rule. Fields that are not figures stay unchanged.
            pub fn add(&mut self, other: &$Name) {
                $( $crate::figures::add::$rule(&mut self.$figure, &other.$figure); )*
            }

            $($(
                $(#[doc = $derived_meaning])+
                pub fn $derived(&self) -> u64 {
                    let $of = self;
                    $value
                }
            )*)?
        }

        #[doc = concat!("The figures of [`", stringify!($Name), "`].")]
        // The constants are named like the fields, in lower case.
        #[allow(non_upper_case_globals)]
        pub mod $module {
            use super::*;
            use $crate::figures::{Figure, Value};

            $(
                $(#[doc = $meaning])+
                pub const $figure: Figure<$Name> = Figure {
                    name: stringify!($figure),
                    label: concat!("" $(, $label)?),
                    meaning: &[$($meaning),+],
                    adds: stringify!($rule),
                    seen: $crate::seen!($($seen)?),
                    value: |of| of.$figure.number(),
                };
            )*
            $($(
                $(#[doc = $derived_meaning])+
                pub const $derived: Figure<$Name> = Figure {
                    name: stringify!($derived),
                    label: $derived_label,
                    meaning: &[$($derived_meaning),+],
                    adds: "sum",
                    seen: $derived_seen,
                    value: |of| Some(of.$derived()),
                };
            )*)?

            /// All figures: first the fields, then the derived figures.
            pub const ALL: [Figure<$Name>; [$( stringify!($figure), )* $($( stringify!($derived), )*)?].len()] =
                [$( $figure, )* $($( $derived, )*)?];
        }
    };
}

/// Default for a figure without a list of backends: all see it.
#[doc(hidden)]
#[macro_export]
macro_rules! seen {
    () => {
        $crate::figures::Seen::ALWAYS
    };
    ($seen:expr) => {
        $seen
    };
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use crate::figures::{Seen, Unit};

    crate::figures! {
        /// A queue.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct Queue {
            /// Its name.
            pub name: String,
        }
        figures of queue {
            /// How often something
            /// was put in.
            puts: u64, sum, "put in", Seen::BY_BPF;
            /// How often something was taken.
            #[serde(alias = "gets")]
            takes: u64, sum;
            /// One standard error of the time in it.
            error_ns: u64, quadrature;
        }
        derived {
            /// What is still in it.
            left, "left", Seen::BY_BPF, |queue| queue.puts.saturating_sub(queue.takes);
        }
    }

    #[test]
    fn one_declaration_gives_fields_sums_names_and_json() {
        let mut all = Queue { name: "all".into(), puts: 5, takes: 1, error_ns: 3 };
        all.add(&Queue { name: "one".into(), puts: u64::MAX, takes: 2, error_ns: 4 });
        assert_eq!(all, Queue { name: "all".into(), puts: u64::MAX, takes: 3, error_ns: 5 });
        assert_eq!(queue::ALL.map(|figure| figure.name), ["puts", "takes", "error_ns", "left"]);
        assert_eq!(queue::ALL.map(|figure| (figure.value)(&all)), [u64::MAX, 3, 5, u64::MAX - 3].map(Some));
        assert_eq!((queue::puts.meaning, queue::puts.seen.perf), (&[" How often something", " was put in."][..], "no"));
        assert_eq!((queue::takes.label, queue::takes.seen), ("", Seen::ALWAYS));
        assert_eq!((queue::error_ns.unit(), queue::error_ns.adds), (Unit::Ns, "quadrature"));
        let read: Queue =
            serde_json::from_str(r#"{"name":"old","puts":1,"gets":2,"error_ns":0}"#).expect("an older name");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), r#"{"name":"old","puts":1,"takes":2,"error_ns":0}"#);
    }
}
