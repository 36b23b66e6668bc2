//! One module per command. A command that runs or observes a program makes the session's engines from its options: the parts that observe, pack, or
//! run tasks. It then runs the session, and writes the output.

pub mod advise;
pub mod bench;
pub mod changes;
pub mod check;
pub mod compare;
pub mod doctor;
pub mod explain;
pub mod forecast;
pub mod levels;
pub mod loops;
pub mod noise;
pub mod once;
pub mod pack;
pub mod pages;
pub mod quiet;
pub mod report;
pub mod run;
pub mod series;
pub mod simulate;
pub mod tries;
pub mod ulp;
pub mod ulp_ps;
