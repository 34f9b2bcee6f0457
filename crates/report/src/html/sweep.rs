//! A sweep as a page: a table, parallel coordinates and curves, drawn by the dashboard's own widgets.

use serde_json::Value;

use super::{STYLE, escape};

/// Renders a page from the data that `widgets/sweep.js` describes.
#[must_use]
pub fn sweep_page(title: &str, data: &Value) -> String {
    let title = escape(title);
    let [base, app, own] = wharf_web::REPORT_STYLE;
    let style = [base, app, STYLE, own].concat();
    let script = wharf_web::sweep_script();
    let policy = wharf_web::security_policy(&script, &style);
    // Within a script element no text may end it.
    let data = data.to_string().replace('<', "\\u003c");
    let logo = wharf_web::LOGO.trim();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n\
         <header class=\"top\"><div class=\"inner report\"><a class=\"brand\" href=\"#top\">{logo}<span class=\"word\">Wharf</span></a>\
         <div class=\"side\"></div></div></header>\n<main class=\"report\" id=\"top\"><div id=\"view\"></div></main>\n\
         <script type=\"application/json\" id=\"sweep\">{data}</script>\n<script>{script}</script>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_markup_stay_text() {
        let evil = "</script><script>alert(1)</script>";
        let page = sweep_page(evil, &serde_json::json!({ "title": evil, "trials": [] }));
        assert!(!page.contains(evil));
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.contains("\\u003c/script>"));
    }
}
