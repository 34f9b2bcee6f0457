//! The Muri simulator's traces.

use crate::format;
use wharf_core::{StageTimes, Time};
use wharf_testing::{needs, reference};
use wharf_trace::{Format, LintOptions, lint, parse_trace, read_trace, stats, write_trace};

const HEADER: &str = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,\
                      iteration_time,resource_time_0,resource_time_1,resource_time_2,priority";

#[test]
fn every_column_arrives_bit_by_bit() {
    let text =
        format!("{HEADER}\r\n7,16,201694000,8787693,dqn,128,4472936000.9,201694000,509.3,435,8,0.5,1\r\n");
    let trace = parse_trace(&text, "t.csv", None).unwrap();
    assert_eq!(trace.name, "t");
    let job = &trace.jobs[0];
    assert_eq!((&*job.name, job.gang.devices, job.priority), ("7", 16, -1), "opportunistic");
    assert_eq!((job.submit, job.duration_s), (Time::from_seconds(201_694.0), Some(4_472_936.0)));
    assert_eq!((job.iterations, job.iteration_ms), (8_787_693.0, 509.3));
    assert_eq!((job.model.as_deref(), job.batch_size), (Some("dqn"), Some(128)));
    assert_eq!(job.stages, Some(StageTimes { data_ms: 435.0, compute_ms: 8.0, network_ms: 0.5 }));
}

#[test]
fn columns_go_by_name_and_optional_ones_may_be_missing() {
    let text =
        "iteration_time,extra,submit_time,job_id,iterations,num_gpu\n100,x,5000,b,10,2\n100,y,1,a,10,1\n";
    let trace = parse_trace(text, "t", None).unwrap();
    let names: Vec<_> = trace.jobs.iter().map(|job| (&*job.name, job.submit.seconds())).collect();
    assert_eq!(names, [("a", 0.001), ("b", 5.0)], "sorted by submission");
    assert!(trace.jobs.iter().all(|job| job.stages.is_none() && job.duration_s.is_none()));
}

#[test]
fn jobs_submitted_together_keep_the_order_of_the_file() {
    let rows: String = (0..100).map(|index| format!("{index},1,{},10,100\n", 1000 - index / 50)).collect();
    let text = format!("job_id,num_gpu,submit_time,iterations,iteration_time\n{rows}");
    let trace = parse_trace(&text, "t", None).unwrap();
    let names: Vec<u32> = trace.jobs.iter().map(|job| job.name.parse().unwrap()).collect();
    assert_eq!(names, (50..100).chain(0..50).collect::<Vec<_>>());
}

#[test]
fn writing_lists_what_the_format_cannot_hold() {
    let text = "job_id,user,submit_s,devices,devices_min,device_types,iterations,iteration_ms,deadline_s,array,array_index\n\
                a,ann,0.1,4,2,v100;a100,10,5,99,sweep,1\n\
                b,bob,0.30000000000000004,1,,,10,5,,,\n";
    let trace = parse_trace(text, "t", None).unwrap();
    let mut out = Vec::new();
    let losses = write_trace(&trace, format("muri"), &mut out).unwrap();
    let fields: Vec<_> = losses.iter().map(|loss| (loss.field, loss.job_count, &*loss.first_job)).collect();
    assert_eq!(
        fields,
        [
            ("user", 2, "a"),
            ("device_types", 1, "a"),
            ("deadline_s", 1, "a"),
            ("array", 1, "a"),
            ("devices_min, devices_max", 1, "a"),
        ]
    );
    assert_eq!(losses[0].to_string(), "user of 2 jobs is lost (the format has no users), first of job `a`");
    let again = parse_trace(&String::from_utf8(out).unwrap(), "t", Some(format("muri"))).unwrap();
    assert_eq!(again.jobs[1].submit, trace.jobs[1].submit);
}

/// Jobs, GPU-hours and the gang histogram that the reference's description gives.
#[test]
fn reference_traces_are_read_whole() {
    for (name, jobs, gpu_hours, gangs) in [
        ("trace1", 1494, 383_327.0, vec![(1, 536), (2, 5), (4, 423), (8, 465), (16, 40), (32, 25)]),
        ("trace2", 5755, 824_082.0, vec![(1, 2335), (2, 171), (4, 937), (8, 1825), (16, 424), (32, 63)]),
        ("trace3", 992, 116_690.0, vec![(1, 134), (2, 22), (4, 34), (8, 691), (16, 3), (32, 108)]),
        ("trace4_pr", 2638, 204_902.0, vec![(1, 1680), (2, 265), (4, 611), (8, 82)]),
    ] {
        needs!(REFERENCE);
        let path = reference(&format!("muri/traces/{name}.csv"));
        let trace = read_trace(&path, None).unwrap();
        let stats = stats(&trace);
        assert_eq!(stats.job_count, jobs);
        assert!((stats.gpu_hours - gpu_hours).abs() < 10.0, "{name}: {}", stats.gpu_hours);
        let histogram: Vec<_> = stats.devices.iter().map(|size| (size.devices, size.job_count)).collect();
        assert_eq!(histogram, gangs, "{name}");
    }
}

#[test]
fn reference_traces_round_trip_and_lint_clean() {
    needs!(REFERENCE);
    let folder = reference("muri/traces");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert_eq!(paths.len(), 20);
    for path in paths {
        let trace = read_trace(&path, None).unwrap();
        for format in &[format("muri"), Format::NATIVE_CSV, Format::NATIVE_JSONL] {
            let mut out = Vec::new();
            assert_eq!(write_trace(&trace, *format, &mut out).unwrap(), [], "{}", path.display());
            let again = parse_trace(&String::from_utf8(out).unwrap(), &trace.name, None).unwrap();
            assert_eq!(again, trace, "{} as {format}", path.display());
        }
        assert_eq!(lint(&path, &LintOptions::default()).unwrap().findings, [], "{}", path.display());
    }
}
