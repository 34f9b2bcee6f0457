//! Manual pages and completions, made from the arguments.

use std::io;

use clap_complete::Shell;
use clap_mangen::Man;

use crate::config::keys;

/// The completion script of a shell.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut keys::command(), "wharf", &mut script);
    script
}

/// The manual page of a command, by its words; `None` where there is no such command.
pub(crate) fn page(words: &[String]) -> io::Result<Option<Vec<u8>>> {
    let root = built();
    let found = words.iter().try_fold(&root, |command, word| command.find_subcommand(word));
    found.map(render).transpose()
}

/// Every manual page with the name of its file: `wharf.1`, `wharf-token-create.1`.
pub(crate) fn all() -> io::Result<Vec<(String, Vec<u8>)>> {
    fn add(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
        if command.is_hide_set() {
            return Ok(());
        }
        pages.push((format!("{}.1", name(command)), render(command)?));
        command.get_subcommands().try_for_each(|sub| add(sub, pages))
    }
    let mut pages = Vec::new();
    add(&built(), &mut pages)?;
    Ok(pages)
}

fn built() -> clap::Command {
    let mut root = keys::command();
    root.build();
    root
}

/// `wharf-token-create`
fn name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).replace(' ', "-")
}

fn render(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    // Without a date, so that equal programs give equal pages.
    Man::new(command.clone()).title(name(command)).manual("Wharf").render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_shown_has_a_page() {
        let pages = all().unwrap();
        let find = |name: &str| pages.iter().find(|(own, _)| own == name).map(|(_, page)| page);
        for name in ["wharf.1", "wharf-head.1", "wharf-token-create.1"] {
            let page = String::from_utf8(find(name).unwrap().clone()).unwrap();
            assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
        }
        assert!(find("wharf-supervisor.1").is_none());
        let words = ["token".to_owned(), "create".to_owned()];
        assert_eq!(page(&words).unwrap().as_ref(), find("wharf-token-create.1"));
        assert_eq!(page(&["nothing".to_owned()]).unwrap(), None);
    }
}
