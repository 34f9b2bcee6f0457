//! Pieces of markup, with escaping in one place.

use serde_json::Value;

use crate::svg::escape;
use crate::table::Table;

/// A part of the page under a heading.
pub(super) fn card(id: &str, heading: &str, body: &str) -> String {
    let heading = escape(heading);
    format!("<section class=\"card\" id=\"{id}\">\n<header><h2>{heading}</h2></header>\n{body}</section>\n")
}

/// A remark.
pub(super) fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>\n", escape(text))
}

/// What is typed or printed as it is.
pub(super) fn code(text: &str) -> String {
    format!("<pre class=\"code\"><code>{}</code></pre>\n", escape(text))
}

/// What is shown when it is asked for.
pub(super) fn details(title: &str, is_open: bool, body: &str) -> String {
    let open = if is_open { " open" } else { "" };
    format!("<details{open}>\n<summary>{}</summary>\n{body}</details>\n", escape(title))
}

/// A table whose best values carry a star and are bold. Numbers have their full value beside what people read.
pub(super) fn html_table(table: &Table) -> String {
    markup(table, table.rows().len() > 2)
}

/// The same for rows that have an order of their own, and values of different kinds below each other.
pub(super) fn fixed_table(table: &Table) -> String {
    markup(table, false)
}

fn markup(table: &Table, is_sortable: bool) -> String {
    let class = |numeric: bool| if numeric { " class=\"n\"" } else { "" };
    let sortable = if is_sortable { " sortable" } else { "" };
    let mut html = format!("<div class=\"scroll\"><table class=\"plain{sortable}\">\n<thead><tr>");
    for column in table.columns() {
        html += &format!(
            "<th scope=\"col\" data-name=\"{}\"{}>{}</th>",
            escape(column.name()),
            class(column.is_numeric()),
            escape(column.title())
        );
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in table.rows() {
        html += "<tr>";
        for (index, (column, cell)) in table.columns().iter().zip(row).enumerate() {
            let text = escape(&cell.show(column));
            let text = match cell.number_text() {
                Some(number) => format!("<data value=\"{number}\">{text}</data>"),
                None => text,
            };
            let text =
                if cell.is_best() { format!("<strong class=\"best\">★ {text}</strong>") } else { text };
            let tag = if index == 0 { ("th scope=\"row\"", "th") } else { ("td", "td") };
            html += &format!("<{}{}>{text}</{}>", tag.0, class(column.is_numeric()), tag.1);
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n"
}

/// JSON for an element of data: no character that markup knows is left in it, so that nothing in it can end the element.
pub(super) fn data_block(value: &Value) -> String {
    let mut safe = String::new();
    for char in value.to_string().chars() {
        match char {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => safe += &format!("\\u{:04x}", char as u32),
            char => safe.push(char),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_end_its_element_and_reads_back() {
        let value = serde_json::json!(["</script><!--<script>", "a&b", "\u{2028}"]);
        let block = data_block(&value);
        assert!(!block.contains(['<', '>', '&', '\u{2028}']), "{block}");
        assert_eq!(serde_json::from_str::<Value>(&block).unwrap(), value);
    }
}
