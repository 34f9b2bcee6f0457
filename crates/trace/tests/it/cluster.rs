//! Clusters by short form and by file.

use wharf_core::ClusterSpec;
use wharf_testing::{needs, reference};
use wharf_trace::{ClusterError, Rule, parse_cluster, parse_cluster_file, write_cluster};

/// Device type, number of nodes, devices in each.
fn groups(cluster: &ClusterSpec) -> Vec<(String, usize, u32)> {
    let mut groups: Vec<(String, usize, u32)> = Vec::new();
    for node in &cluster.nodes {
        match groups.last_mut() {
            Some((device_type, count, devices))
                if **device_type == *node.device_type && *devices == node.devices =>
            {
                *count += 1;
            }
            _ => groups.push((node.device_type.to_string(), 1, node.devices)),
        }
    }
    groups
}

#[test]
fn short_forms() {
    for (text, expected) in [
        ("8x8", vec![("gpu", 8, 8)]),
        (" 2 X 4 ", vec![("gpu", 2, 4)]),
        ("2×4", vec![("gpu", 2, 4)]),
        ("1x128", vec![("gpu", 1, 128)]),
        ("v100:36", vec![("v100", 36, 1)]),
        ("a100:4x8,v100:16x4", vec![("a100", 4, 8), ("v100", 16, 4)]),
        ("a100:1x8, a100:2x4", vec![("a100", 1, 8), ("a100", 2, 4)]),
        ("h100-sxm_80.gb:2x8", vec![("h100-sxm_80.gb", 2, 8)]),
    ] {
        let cluster = parse_cluster(text).unwrap();
        let expected: Vec<_> =
            expected.into_iter().map(|(name, nodes, devices)| (name.to_owned(), nodes, devices)).collect();
        assert_eq!(groups(&cluster), expected, "{text}");
        let mut names: Vec<_> = cluster.nodes.iter().map(|node| node.name.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), cluster.nodes.len(), "{text}: node names are unique");
    }
    assert_eq!(parse_cluster("8x8").unwrap(), ClusterSpec::uniform("gpu", 8, 8));
    assert_eq!(parse_cluster("1000000x4").unwrap().device_count(), 4_000_000);
}

#[test]
fn bad_short_form_also_reports_the_missing_file() {
    for (text, reason) in [
        ("", "it has an empty part"),
        ("8x8,", "it has an empty part"),
        ("8", "`8` is not nodes x devices"),
        ("n8g8.csv", "`n8g8.csv` is not nodes x devices"),
        ("0x8", "it has 0 nodes"),
        ("8x0", "it has 0 devices per node"),
        ("v100:0", "it has 0 nodes"),
        ("8x129", "`129` is more than the limit of 128 devices per node"),
        ("99999999999999999999x8", "`99999999999999999999` is more than the limit of 4000000 nodes"),
        ("4000000x2", "it has 8000000 devices, the limit is 4000000"),
        ("8xx8", "`x8` is not a number of devices per node"),
        ("-8x8", "`-8` is not a number of nodes"),
        (":8x8", "`` is no device type (letters, digits, `-`, `_`, `.`)"),
        ("a b:8x8", "`a b` is no device type (letters, digits, `-`, `_`, `.`)"),
        ("v100:", "`` is not a number of nodes"),
    ] {
        let error = parse_cluster(text).unwrap_err();
        let expected = format!("`{text}` is not a cluster: no such file, and not a short form: {reason}");
        assert_eq!(error.to_string(), expected);
        assert!(error.hint().unwrap().contains("`8x8`"));
    }
}

fn parse_file(text: &str) -> Result<ClusterSpec, ClusterError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("cluster.csv");
    std::fs::write(&path, text).expect("a temporary file");
    parse_cluster_file(&path)
}

#[test]
fn native_file_has_a_row_for_each_node() {
    let cluster =
        parse_file("name,device_type,devices,switch\nleft,a100,8,0\n\"right, rear\",v100,4,1\n").unwrap();
    assert_eq!(groups(&cluster), [("a100".to_owned(), 1, 8), ("v100".to_owned(), 1, 4)]);
    assert_eq!(&*cluster.nodes[1].name, "right, rear");
    assert_eq!((cluster.nodes[1].cpus, cluster.nodes[1].memory_gib, cluster.nodes[1].switch), (32, 256, 1));
    let mut text = Vec::new();
    write_cluster(&cluster, &mut text).unwrap();
    assert_eq!(parse_file(&String::from_utf8(text).unwrap()).unwrap(), cluster);
}

#[test]
fn muri_file_has_a_row_for_each_kind_of_node() {
    let header = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node";
    let cluster = parse_file(&format!("{header}\r\n2,3,8,92,520\r\n1,2,4,46,260")).unwrap();
    assert_eq!(groups(&cluster), [("gpu".to_owned(), 6, 8), ("gpu".to_owned(), 2, 4)]);
    let switches: Vec<_> = cluster.nodes.iter().map(|node| node.switch).collect();
    assert_eq!(switches, [0, 0, 0, 1, 1, 1, 2, 2]);
    assert_eq!((cluster.nodes[0].cpus, cluster.nodes[0].memory_gib), (92, 520));
    assert_eq!(&*cluster.nodes[7].name, "gpu-7");
}

#[test]
fn node_list_of_openb_has_a_row_for_each_node() {
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\nn-1,96000,786432,8,G2\nn-0,8000,30720,1,T4\n";
    let cluster = parse_file(nodes).unwrap();
    let shown = cluster.nodes.iter().map(|node| {
        format!("{} {} {} {} {}", node.name, node.device_type, node.devices, node.cpus, node.memory_gib)
    });
    assert_eq!(shown.collect::<Vec<_>>(), ["n-1 G2 8 96 768", "n-0 T4 1 8 30"]);
}

#[test]
fn bad_files_name_line_and_column() {
    let openb = "sn,cpu_milli,memory_mib,gpu,model\n";
    let muri = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n";
    for (text, rule, line, column) in [
        ("name,devices\na,8\n".to_owned(), Rule::MissingColumn, 1, "device_type"),
        ("name,device_type,device\na,v100,8\n".to_owned(), Rule::UnknownColumn, 1, "device"),
        ("name,device_type,devices\na,v100,0\n".to_owned(), Rule::ZeroCount, 2, "devices"),
        ("name,device_type,devices\na,v100,129\n".to_owned(), Rule::TooManyDevices, 2, "devices"),
        ("name,device_type,devices\na,v100,8\na,v100,8\n".to_owned(), Rule::DuplicateNode, 3, "name"),
        ("name,device_type,devices\n,v100,8\n".to_owned(), Rule::MissingValue, 2, "name"),
        ("name,device_type,devices\na,v100,many\n".to_owned(), Rule::NotANumber, 2, "devices"),
        ("name,device_type,devices\n".to_owned(), Rule::NoRows, 1, ""),
        (
            "num_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n1,8,9,5\n".to_owned(),
            Rule::MissingColumn,
            1,
            "num_node_p_switch",
        ),
        (format!("{openb}a,96500,1024,8,G2\n"), Rule::NotAnInteger, 2, "cpu_milli"),
        (format!("{openb}a,96000,1000,8,G2\n"), Rule::NotAnInteger, 2, "memory_mib"),
        (format!("{openb}a,96000,1024,eight,G2\n"), Rule::NotANumber, 2, "gpu"),
        (format!("{openb}a,96000,1024,8,\n"), Rule::MissingValue, 2, "model"),
        (format!("{openb}a,96000,1024,8,G2\na,96000,1024,8,G2\n"), Rule::DuplicateNode, 3, "sn"),
        ("sn,cpu_milli,memory_mib,gpu,model,zone\n".to_owned(), Rule::UnknownColumn, 1, "zone"),
        ("cpu_milli,memory_mib,gpu,model\n1000,1024,1,G2\n".to_owned(), Rule::MissingColumn, 1, "sn"),
        (format!("{muri}1,0,8,92,520\n"), Rule::ZeroCount, 2, "num_node_p_switch"),
        (format!("{muri}1,8,8,,520\n"), Rule::MissingValue, 2, "num_cpu_p_node"),
        (format!("{muri}4294967295,4294967295,128,1,1\n"), Rule::TooManyDevices, 2, "num_node_p_switch"),
    ] {
        match parse_file(&text) {
            Err(ClusterError::Invalid(finding)) => {
                assert_eq!((finding.rule, finding.line), (rule, line), "{finding}");
                assert_eq!(finding.column.as_deref().unwrap_or_default(), column, "{finding}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(parse_file(""), Err(ClusterError::Source(_))));
    assert!(matches!(parse_cluster("/"), Err(ClusterError::Source(_))));
}

#[test]
fn reference_cluster_is_read() {
    needs!(REFERENCE);
    let path = reference("muri/cluster/n8g8.csv");
    let cluster = parse_cluster(path.to_str().unwrap()).unwrap();
    assert_eq!(groups(&cluster), [("gpu".to_owned(), 8, 8)]);
}
