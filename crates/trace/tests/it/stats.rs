//! Numbers about traces.

use wharf_trace::{Trace, parse_trace, stats};

#[test]
fn stats_of_a_trace_that_fits_in_the_head() {
    let text = "job_id,user,submit_s,devices,duration_s,model\n\
                a,ann,0,1,3600,bert\nb,bob,1800,4,7200,bert\nc,ann,3600,1,3600,\n";
    let stats = stats(&parse_trace(text, "tiny.csv", None).unwrap());
    assert_eq!((stats.job_count, stats.user_count, stats.span_s), (3, 2, 3600.0));
    assert_eq!((stats.gpu_hours, stats.arrivals_per_hour), (10.0, Some(2.0)));
    assert_eq!((stats.duration_s.p50, stats.duration_s.max, stats.duration_s.mean), (3600.0, 7200.0, 4800.0));
    assert_eq!(stats.offered_load(20), Some(0.5));
    assert_eq!(
        stats.to_text(Some(20)),
        "trace            tiny\n\
         jobs             3\n\
         users            2\n\
         span             3600 s (0.0 days)\n\
         arrivals         2.00 per hour\n\
         GPU-hours        10.0\n\
         offered load     0.500 on 20 devices\n\
         \n\
         \x20                       min        p25        p50        p75        p90        p99        max       mean\n\
         duration s           3600.0     3600.0     3600.0     7200.0     7200.0     7200.0     7200.0     4800.0\n\
         interarrival s       1800.0     1800.0     1800.0     1800.0     1800.0     1800.0     1800.0     1800.0\n\
         \n\
         devices               jobs       %    GPU-hours       %\n\
         1                        2    66.7          2.0    20.0\n\
         4                        1    33.3          8.0    80.0\n\
         \n\
         model                 jobs       %    GPU-hours       %\n\
         bert                     2    66.7          9.0    90.0\n"
    );
    assert!(serde_json::to_string(&stats).unwrap().starts_with(r#"{"name":"tiny","job_count":3,"#));
}

#[test]
fn stats_of_nothing_and_of_one_job_are_numbers() {
    let empty = stats(&Trace::default());
    assert_eq!((empty.job_count, empty.offered_load(8), empty.duration_s.mean), (0, None, 0.0));
    assert!(empty.to_text(Some(8)).contains("all at once"));
}
