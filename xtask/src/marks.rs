//! What is generated into a page stands between two lines of the page, which are comments.

/// The lines before and behind the place called `name`.
pub(crate) fn lines(name: &str) -> (String, String) {
    (format!("<!-- begin {name} -->"), format!("<!-- end {name} -->"))
}

/// The page with `text` in the place called `name`; `None` if it has no such place.
pub(crate) fn replaced(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = lines(name);
    let (before, rest) = page.split_once(&format!("{begin}\n"))?;
    let (_, behind) = rest.split_once(&format!("{end}\n"))?;
    Some(format!("{before}{begin}\n{text}{end}\n{behind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_place_is_replaced() {
        let page = "# A\n<!-- begin map -->\nold\n<!-- end map -->\nz\n";
        let wanted = "# A\n<!-- begin map -->\nfresh\n<!-- end map -->\nz\n";
        assert_eq!(replaced(page, "map", "fresh\n").as_deref(), Some(wanted));
        assert_eq!(replaced(wanted, "map", "fresh\n").as_deref(), Some(wanted));
        assert_eq!(replaced(page, "other", "fresh\n"), None);
        assert_eq!(replaced("<!-- begin map -->\nold\n", "map", "fresh\n"), None);
    }
}
