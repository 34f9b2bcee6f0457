//! Generated traces: the same from the same seed, and like what the settings say.

use crate::format;
use wharf_trace::{
    Arrivals, Deadlines, Format, GangMix, GeneratorSettings, LintOptions, Rate, Trace, generate,
    generator_models, lint_reader, parse_trace, stats, write_trace,
};

fn csv(trace: &Trace) -> String {
    let mut out = Vec::new();
    write_trace(trace, Format::NATIVE_CSV, &mut out).expect("memory does not fail");
    String::from_utf8(out).expect("traces are text")
}

/// FNV-1a.
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn busy() -> GeneratorSettings {
    GeneratorSettings {
        arrivals: Arrivals::BURSTY,
        deadlines: Some(Deadlines::default()),
        job_count: 20_000,
        ..GeneratorSettings::default()
    }
}

#[test]
fn bytes_are_pinned() {
    let text = csv(&generate(&GeneratorSettings::default()).unwrap());
    let first: Vec<_> = text.lines().take(4).collect();
    let expected = [
        "job_id,user,submit_s,devices,iterations,iteration_ms,model,batch_size,data_ms,compute_ms,network_ms,priority",
        "0,user1,641.662,1,717,188.3,vit-b,32,70,165,0,0",
        "1,user1,851.27,1,798,290.5,gpt2-medium,8,1.5,290,0,0",
        "2,user49,900.24,1,6266,150.7,bert-base,16,2,150,0,0",
    ];
    assert_eq!(first, expected);
    assert_eq!(
        (digest(&text), digest(&csv(&generate(&busy()).unwrap()))),
        (16_119_227_627_797_366_983, 17_930_906_416_715_013_176)
    );
}

#[test]
fn one_setting_changes_only_what_depends_on_it() {
    let base = generate(&GeneratorSettings::default()).unwrap();
    let other = |change: fn(&mut GeneratorSettings)| {
        let mut settings = GeneratorSettings::default();
        change(&mut settings);
        generate(&settings).unwrap()
    };
    let users = other(|settings| settings.user_count = 3);
    let rush = other(|settings| settings.rate = Rate::AtOnce);
    let urgent = other(|settings| settings.urgent_share = 0.9);
    for (index, job) in base.jobs.iter().enumerate() {
        assert_eq!((users.jobs[index].submit, users.jobs[index].iterations), (job.submit, job.iterations));
        assert_eq!((&rush.jobs[index].user, rush.jobs[index].iterations), (&job.user, job.iterations));
        assert_eq!((&urgent.jobs[index].user, &urgent.jobs[index].gang), (&job.user, &job.gang));
    }
    assert_ne!(other(|settings| settings.seed = 2).jobs, base.jobs);
}

#[test]
fn load_equals_the_request() {
    for arrivals in [Arrivals::Poisson, Arrivals::BURSTY] {
        for load in [0.5, 0.9, 1.5] {
            let settings = GeneratorSettings { rate: Rate::Load { devices: 256, load }, arrivals, ..busy() };
            let offered = stats(&generate(&settings).unwrap()).offered_load(256).unwrap();
            assert!((offered / load - 1.0).abs() < 0.15, "{arrivals:?} {load}: {offered}");
        }
    }
    let hourly = GeneratorSettings { rate: Rate::PerHour(40.0), ..busy() };
    let rate = stats(&generate(&hourly).unwrap()).arrivals_per_hour.unwrap();
    assert!((rate / 40.0 - 1.0).abs() < 0.15, "{rate}");
}

#[test]
fn shares_equal_the_request() {
    let trace = generate(&busy()).unwrap();
    let share = |is_counted: &dyn Fn(&wharf_core::JobSpec) -> bool| {
        trace.jobs.iter().filter(|job| is_counted(job)).count() as f64 / trace.jobs.len() as f64
    };
    for (what, found, expected) in [
        ("urgent", share(&|job| job.priority == 1), 0.1),
        ("deadlines", share(&|job| job.deadline.is_some()), 0.5),
        ("single devices", share(&|job| job.gang.devices == 1), 0.78),
        ("tail", share(&|job| job.solo_s() > 28_800.0), 0.05 + 0.95 * 0.0235),
        ("short half", share(&|job| job.solo_s() < 1200.0), 0.475),
    ] {
        assert!((found - expected).abs() < 0.012, "{what}: {found}, expected {expected}");
    }
    let first_user = share(&|job| job.user.as_deref() == Some("user1"));
    assert!(first_user > 2.0 * share(&|job| job.user.as_deref() == Some("user3")), "{first_user}");
    assert!(trace.jobs.iter().all(|job| job.deadline.is_none_or(|deadline| deadline >= job.submit)));
}

#[test]
fn bursts_are_bursty() {
    let calm =
        generate(&GeneratorSettings { arrivals: Arrivals::Poisson, daily_swing: 0.0, ..busy() }).unwrap();
    let wild = generate(&GeneratorSettings { daily_swing: 0.0, ..busy() }).unwrap();
    let spread = |trace: &Trace| {
        let gaps: Vec<f64> = trace.jobs.windows(2).map(|pair| pair[1].submit.since(pair[0].submit)).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64 / mean.powi(2)
    };
    assert!((spread(&calm) - 1.0).abs() < 0.1, "{}", spread(&calm));
    assert!(spread(&wild) > 1.5, "{}", spread(&wild));
}

#[test]
fn generated_traces_lint_clean_and_go_through_every_format() {
    for mix in GangMix::names() {
        let gangs = mix.parse().unwrap();
        let settings =
            GeneratorSettings { gangs, user_count: 0, job_count: 500, ..GeneratorSettings::default() };
        let trace = generate(&settings).unwrap();
        for format in &[format("muri"), Format::NATIVE_CSV, Format::NATIVE_JSONL] {
            let mut out = Vec::new();
            assert_eq!(write_trace(&trace, *format, &mut out).unwrap(), []);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(parse_trace(&text, "t", None).unwrap().jobs.len(), 500);
            let known: Vec<_> = generator_models().iter().map(|model| model.name).collect();
            let options = LintOptions { known_models: Some(&known), ..LintOptions::default() };
            assert_eq!(lint_reader(std::io::Cursor::new(text), "t", &options).unwrap().findings, []);
        }
    }
}

#[test]
fn mix_is_parsed_or_rejected_with_a_reason() {
    let custom: GangMix = "1:0.6, 2:0.1,8:3".parse().unwrap();
    assert_eq!(custom.sizes(), [(1, 0.6), (2, 0.1), (8, 3.0)]);
    assert_eq!(custom.to_string().parse(), Ok(custom));
    assert_eq!("Philly-like".parse(), Ok(GangMix::philly()));
    for (text, expected) in [
        (
            "phily",
            "`phily` is neither a named mix (philly, muri, helios, pai) nor pairs like `1:0.6,2:0.4`; did you mean `philly`?",
        ),
        ("", "`` is neither a named mix (philly, muri, helios, pai) nor pairs like `1:0.6,2:0.4`"),
        ("0:1", "a gang has at least one device"),
        ("1:-1", "found weight -1, expected a finite number from 0"),
        ("1:nan", "found weight NaN, expected a finite number from 0"),
        ("1:0", "the weights must sum to a finite number above 0"),
    ] {
        assert_eq!(text.parse::<GangMix>().unwrap_err().to_string(), expected);
    }
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let bad = |change: fn(&mut GeneratorSettings)| {
        let mut settings = GeneratorSettings::default();
        change(&mut settings);
        generate(&settings).unwrap_err().to_string()
    };
    assert_eq!(bad(|settings| settings.job_count = 0), "job_count is 0, expected 1 to 100 000 000");
    assert_eq!(bad(|settings| settings.daily_swing = f64::NAN), "daily_swing is NaN, expected 0 to 0.95");
    assert_eq!(bad(|settings| settings.durations.max_s = 1.0), "durations.max_s is 1, expected min_s to 1e9");
    let load = bad(|settings| settings.rate = Rate::Load { devices: 8, load: 0.0 });
    let gangs = bad(|settings| settings.rate = Rate::Load { devices: 8, load: 0.9 });
    assert_eq!(gangs, "gangs is 32, expected no gang larger than the cluster");
    let fitting = GangMix::philly().at_most(4).unwrap();
    assert_eq!(fitting.sizes(), [(1, 0.78), (2, 0.05), (4, 0.07)]);
    assert_eq!(load, "rate.load is 0, expected 0.001 to 1000 (0.9 is busy)");
}

#[test]
fn odd_but_valid_settings_come_to_an_end() {
    for arrivals in [
        Arrivals::Bursty { factor: 1e4, burst_s: 1.0, calm_s: 1e9 },
        Arrivals::Bursty { factor: 1e4, burst_s: 1.0, calm_s: 1.0 },
    ] {
        for rate in [Rate::PerHour(1e-6), Rate::PerHour(1e9)] {
            let settings =
                GeneratorSettings { arrivals, rate, daily_swing: 0.95, ..GeneratorSettings::default() };
            let trace = generate(&settings).unwrap();
            assert!(trace.jobs.is_sorted_by_key(|job| job.submit));
        }
    }
}
