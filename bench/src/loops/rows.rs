//! What is compared: the schedules of the library, and the limits of their cost.

/// How much time a schedule may take, relative to the runtime's own loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Chunks by number: one fetch-add for each request.
    Table,
    /// Sizes that are computed at each request.
    Adaptive,
    /// Neither: there is no limit.
    Other,
}

/// All schedules that can be measured in a loop of one instance after the other, each with its class.
pub const SCHEDULES: [(&str, Class); 26] = [
    ("fsc", Class::Table),
    ("mfsc", Class::Table),
    ("gss", Class::Table),
    ("gss_llvm", Class::Table),
    ("tss", Class::Table),
    ("tfss", Class::Table),
    ("fac", Class::Table),
    ("fac2", Class::Table),
    ("tap", Class::Table),
    ("fiss", Class::Table),
    ("viss", Class::Table),
    ("rnd", Class::Table),
    ("pls", Class::Table),
    ("hybrid", Class::Table),
    ("wf", Class::Adaptive),
    ("bold", Class::Adaptive),
    ("awf", Class::Adaptive),
    ("awf_b", Class::Adaptive),
    ("awf_c", Class::Adaptive),
    ("awf_d", Class::Adaptive),
    ("awf_e", Class::Adaptive),
    ("af", Class::Adaptive),
    ("maf", Class::Adaptive),
    ("static_weighted", Class::Other),
    ("static", Class::Other),
    ("static_steal", Class::Other),
];

/// The loop that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// One long loop with chunks of one iteration: what a request costs.
    Iteration,
    /// Many short loops: what an instance costs, with all its requests and the barrier.
    Instance,
}

impl Part {
    /// Both parts.
    pub const ALL: [Part; 2] = [Part::Iteration, Part::Instance];

    /// Returns the loop's schedule in the program, as an argument of `loopcost`.
    pub fn clause(self) -> &'static str {
        match self {
            Part::Iteration => "dynamic",
            Part::Instance => "guided",
        }
    }

    /// Returns the number of iterations of an instance, and the number of instances.
    pub fn size(self) -> (u64, u64) {
        match self {
            Part::Iteration => (100_000, 1),
            Part::Instance => (200, 2000),
        }
    }

    /// Returns what one number stands for, in the table's heading.
    pub fn unit(self) -> &'static str {
        match self {
            Part::Iteration => "dynamic,1: ns per iteration",
            Part::Instance => "guided, 200 iterations: ns per instance",
        }
    }

    /// Returns by how much nanoseconds per instance have to be divided.
    pub fn divisor(self) -> f64 {
        match self {
            Part::Iteration => self.size().0 as f64,
            Part::Instance => 1.0,
        }
    }

    /// Returns the largest ratio of a schedule's time to that of libgomp's own loop; `None` if there is no limit.
    pub fn limit(self, class: Class, threads: u32) -> Option<f64> {
        match (self, class) {
            (Part::Iteration, _) | (_, Class::Table) => Some(1.15),
            (_, Class::Adaptive) if threads == 1 => Some(2.0),
            (_, Class::Adaptive) => Some(2.5),
            (_, Class::Other) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_depend_on_the_class_and_the_team() {
        let limits = |class| [1, 2].map(|threads| Part::Instance.limit(class, threads));
        assert_eq!(limits(Class::Table), [Some(1.15); 2]);
        assert_eq!(limits(Class::Adaptive), [Some(2.0), Some(2.5)]);
        assert_eq!(limits(Class::Other), [None; 2]);
    }
}
