//! A report as one page of HTML that needs nothing else: style, script and data stand in it, and its policy forbids it to load anything.
//!
//! The data is JSON in a script element of another type. The page's script reads it and makes elements with texts; it never makes HTML of a name.

use std::collections::HashMap;

use serde::Serialize;

use super::{CountsRow, NodeRow, Report, SiteRow};
use crate::savings::Basis;

const PAGE: &str = include_str!("../../page/page.html");
const STYLE: &str = include_str!("../../page/page.css");
const SCRIPT: &str = include_str!("../../page/page.js");

/// What the page's script reads. Nodes stand in columns, which takes a quarter of the bytes.
#[derive(Debug, Serialize)]
struct PageData<'a> {
    title: &'a str,
    span_us: u64,
    counts: CountsRow,
    basis: &'a Basis,
    saved_us: f64,
    sites: &'a [SiteRow],
    names: Vec<&'a str>,
    nodes: NodeColumns,
}

#[derive(Debug, Default, Serialize)]
struct NodeColumns {
    /// -1: none.
    parent: Vec<i64>,
    /// -1: none.
    site: Vec<i64>,
    /// Number of its name.
    name: Vec<usize>,
    count: Vec<u64>,
    cpu_us: Vec<u64>,
    life_us: Vec<u64>,
    saved_us: Vec<f64>,
}

impl NodeColumns {
    fn push(&mut self, node: &NodeRow, name: usize) {
        let number =
            |number: Option<usize>| number.and_then(|number| i64::try_from(number).ok()).unwrap_or(-1);
        self.parent.push(number(node.parent));
        self.site.push(number(node.site));
        self.name.push(name);
        self.count.push(node.count);
        self.cpu_us.push(node.cpu_us);
        self.life_us.push(node.life_us);
        self.saved_us.push((node.saved_us * 10.0).round() / 10.0);
    }
}

impl Report {
    /// As one page of HTML.
    ///
    /// # Errors
    /// None that is known: every value has a form in JSON.
    pub fn to_html(&self) -> serde_json::Result<String> {
        let (mut names, mut numbers, mut nodes) = (Vec::new(), HashMap::new(), NodeColumns::default());
        for node in &self.nodes {
            let number = *numbers.entry(node.name.as_str()).or_insert_with(|| {
                names.push(node.name.as_str());
                names.len() - 1
            });
            nodes.push(node, number);
        }
        let data = PageData {
            title: &self.title,
            span_us: self.span_us,
            counts: self.counts,
            basis: &self.basis,
            saved_us: self.saved_us,
            sites: &self.sites,
            names,
            nodes,
        };
        let data = in_script(&serde_json::to_string(&data)?);
        let parts = [
            ("{{title}}", escaped(&self.title)),
            ("{{style}}", STYLE.to_owned()),
            ("{{script}}", SCRIPT.to_owned()),
        ];
        let page = parts.iter().fold(PAGE.to_owned(), |page, (mark, text)| page.replacen(mark, text, 1));
        // Last, so that no mark in a name is taken for one of the page.
        Ok(page.replacen("{{data}}", &data, 1))
    }
}

/// JSON that cannot end the element that it stands in, nor begin a comment or another script there.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// A text for HTML.
fn escaped(text: &str) -> String {
    crate::text::plain(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
