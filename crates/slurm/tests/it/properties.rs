//! What holds for every list, array and time, not only for those that were measured.

use proptest::prelude::*;
use wharf_slurm::grammar::array::Array;
use wharf_slurm::grammar::environ::{compact, evenly, spread};
use wharf_slurm::grammar::limit::{Full, TimeLimit};
use wharf_slurm::grammar::{hostlist, script};

proptest! {
    #[test]
    fn hostlists_come_back_as_they_were(names in prop::collection::vec("[a-z]{1,4}-?[0-9]{0,4}", 0..40)) {
        prop_assert_eq!(hostlist::expand(&hostlist::compress(&names)).unwrap(), names);
    }

    #[test]
    fn nothing_makes_a_hostlist_panic(text in "[a-c0-9,\\[\\]-]{0,24}") {
        if let Ok(names) = hostlist::expand(&text) {
            prop_assert_eq!(hostlist::expand(&hostlist::compress(&names)).unwrap(), names);
        }
    }

    #[test]
    fn arrays_come_back_as_they_were(indexes in prop::collection::btree_set(0..1000u32, 1..60), limit in 0..9u32) {
        let indexes: Vec<u32> = indexes.into_iter().collect();
        let array = Array { indexes, limit: (limit > 0).then_some(limit), step: 1 };
        prop_assert_eq!(Array::parse(&array.to_string(), 1001).unwrap(), array);
    }

    #[test]
    fn nothing_makes_an_array_panic(text in "[0-9,:%+\\[\\] -]{0,24}") {
        if let Ok(array) = Array::parse(&text, 1001) {
            prop_assert!(array.indexes.is_sorted_by(|left, right| left < right), "{:?}", array);
        }
    }

    #[test]
    fn times_come_back_as_they_were(minutes in 1..10_000_000u32) {
        let limit = TimeLimit::Minutes(minutes);
        prop_assert_eq!(limit.to_string().parse::<TimeLimit>().unwrap(), limit);
        prop_assert_eq!(Full(u64::from(minutes) * 60).to_string(), limit.to_string());
    }

    #[test]
    fn numbers_of_nodes_come_back_as_they_were(numbers in prop::collection::vec(0..99u32, 1..30)) {
        prop_assert_eq!(spread(&compact(&numbers)).unwrap(), numbers);
    }

    #[test]
    fn tasks_are_spread_evenly_and_all_of_them(tasks in 0..1000u32, nodes in 1..40usize) {
        let spread = evenly(tasks, nodes);
        prop_assert_eq!(spread.iter().sum::<u32>(), tasks);
        prop_assert!(spread.iter().max().unwrap() - spread.iter().min().unwrap() <= 1);
    }

    #[test]
    fn nothing_in_a_script_makes_it_panic(lines in prop::collection::vec("#(SBATCH|PBS|BSUB)[ -~]{0,30}", 0..6)) {
        let script = format!("#!/bin/sh\n{}\n", lines.join("\n"));
        // Refused or not: it is one of the two.
        let _ = script::accept(script.as_bytes()).and_then(|script| script::directives("s.sh", script));
    }
}
