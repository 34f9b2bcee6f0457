//! What a page may do in a browser, where it has no server to state this.

/// Allows this script and this style, by what is in them, and nothing else: no other script, no request, no frame.
#[must_use]
pub fn security_policy(script: &str, style: &str) -> String {
    let hash = |text: &str| base64(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref());
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(script),
        hash(style)
    )
}

/// Bytes as letters (RFC 4648).
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |bytes: &[u8]| {
        let bits = (0..3).fold(0_u32, |bits, index| bits << 8 | u32::from(*bytes.get(index).unwrap_or(&0)));
        let letter = |index: usize| match index > bytes.len() {
            true => '=',
            false => LETTERS[(bits >> (18 - 6 * index) & 63) as usize] as char,
        };
        [0, 1, 2, 3].map(letter)
    };
    bytes.chunks(3).flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_the_standard_has_it() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn only_the_given_script_may_run() {
        // The hash of `1` is known.
        let policy = security_policy("1", "");
        assert!(
            policy.contains("script-src 'sha256-a4ayc/80/OGda4BO/1o/V0etpOqiLx1JwB5S3beHW0s=';"),
            "{policy}"
        );
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"));
    }
}
