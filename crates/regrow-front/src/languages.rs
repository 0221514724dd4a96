//! The languages that Regrow has front ends for, a row each.
//!
//! A further language is a folder beside `python` and `perl` and a row here: the engine finds it by its interpreter's name.

use crate::language::Language;
use crate::{perl, python};

/// The table.
pub static LANGUAGES: &[&Language] = &[&python::LANGUAGE, &perl::LANGUAGE];

/// The language whose interpreter has this file name.
#[must_use]
pub fn of_interpreter(file_name: &[u8]) -> Option<&'static Language> {
    find(LANGUAGES, file_name)
}

fn find(table: &[&'static Language], file_name: &[u8]) -> Option<&'static Language> {
    table.iter().copied().find(|language| (language.is_interpreter)(file_name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::{Argument, CommandLine, Plan};
    use crate::names::VariableNames;
    use std::borrow::Cow;
    use std::sync::Arc;

    /// A language that is made up: all that a third one takes.
    static FORTH: Language = Language {
        name: "forth",
        is_interpreter: |name| name == b"gforth",
        variables: VariableNames { exact: &["GFORTHPATH"], prefixes: &[] },
        source: || Cow::Borrowed("STOP"),
        plan: plan_forth,
    };

    static THREE: &[&Language] = &[&python::LANGUAGE, &perl::LANGUAGE, &FORTH];

    fn plan_forth(line: CommandLine<'_>) -> Option<Plan> {
        let CommandLine { argv, variable, modules, compile } = line;
        let [_, script] = argv else { return None };
        variable("HOME")?;
        let load = |modules: &[String]| Argument::Source(format!("{} load ", modules.join(" ")), " bye");
        let plain = vec!["-e".into(), load(&modules)];
        let compiled = plain.iter().cloned().chain([script.to_vec().into()]).collect();
        let plan = |arguments, loaded, plainer| Plan { language: &FORTH, arguments, loaded, plainer };
        let plainer = plan(plain, modules.clone(), None);
        Some(if compile { plan(compiled, modules, Some(Arc::new(plainer))) } else { plainer })
    }

    fn plan(modules: &[&str], compile: bool) -> Option<Plan> {
        let language = find(THREE, b"gforth")?;
        let requested: Vec<String> = modules.iter().map(|&module| module.to_owned()).collect();
        (language.plan)(CommandLine {
            argv: &[b"gforth", b"a.fs"],
            variable: &|name| (name == "HOME").then_some(b"/"),
            modules: language.modules(&requested),
            compile,
        })
    }

    #[test]
    fn an_interpreter_is_of_one_language() {
        for (file_name, name) in
            [("python3.11", "python"), ("perl", "perl"), ("perl5.36.0", "perl"), ("gforth", "forth")]
        {
            let found = find(THREE, file_name.as_bytes()).expect("a language");
            assert_eq!(found.name, name);
            assert_eq!(of_interpreter(file_name.as_bytes()).is_some(), name != "forth");
        }
        assert_eq!(find(THREE, b"ruby"), None);
    }

    #[test]
    fn a_third_language_is_a_row() {
        let plan = plan(&["forth:float", "ruby:json", "python:re", "locals"], true).expect("a plan");
        let arguments = plan.arguments().expect("no NUL");
        assert_eq!(
            arguments,
            [c"-e".to_owned(), c"float locals load STOP bye".to_owned(), c"a.fs".to_owned()]
        );
        assert_eq!(plan.loaded(), "float,locals");
        assert_eq!(plan.language().variables.patterns(), [b"GFORTHPATH".to_vec()]);
        let plainer = plan.plainer().expect("another plan");
        assert_eq!(plainer.arguments().expect("no NUL")[..], arguments[..2]);
        assert_eq!(plainer.plainer(), None);
    }

    #[test]
    fn plans_are_equal_when_their_images_are() {
        assert_eq!(plan(&["float"], false), plan(&["forth:float"], false));
        assert_ne!(plan(&["float"], false), plan(&["locals"], false));
        assert_ne!(plan(&["float"], false), plan(&["float"], true));
        assert_eq!(
            plan(&["float"], true).and_then(|plan| plan.plainer()).as_deref(),
            plan(&["float"], false).as_ref()
        );
    }

    #[test]
    fn modules_are_of_the_language_that_they_name() {
        let requested = ["re", "python:json", "perl:CGI", "A::B", "perl:A::B", "os.path", ":x", "python:"];
        let requested = requested.map(str::to_owned);
        assert_eq!(python::LANGUAGE.modules(&requested), ["re", "json", "A::B", "os.path", ""]);
        assert_eq!(perl::LANGUAGE.modules(&requested), ["re", "CGI", "A::B", "A::B", "os.path"]);
    }
}
