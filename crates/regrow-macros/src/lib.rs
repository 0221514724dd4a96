//! The attribute `#[regrow::fresh]`: see `regrow::work`, which it is part of.

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Error, FnArg, Ident, ItemFn, Pat, ReturnType, Signature, Type, parse_macro_input};

/// Makes a function one that can run in a fresh process of its program.
///
/// Beside the function there is a module of its name, with a function `call` of the same arguments. That does not call it, but makes a *work* of
/// the call, for `regrow::work::spawn`. The arguments and the result go from process to process, so that their types are serde's `Serialize` and
/// `Deserialize`. The function stands in a module or at the top of a crate, not within another function.
#[proc_macro_attribute]
pub fn fresh(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let function = parse_macro_input!(item as ItemFn);
    let attribute = proc_macro2::TokenStream::from(attribute);
    if !attribute.is_empty() {
        return Error::new(attribute.span(), "`#[regrow::fresh]` has no arguments").to_compile_error().into();
    }
    expand(&function)
        .unwrap_or_else(|error| {
            let error = error.to_compile_error();
            quote!(#function #error)
        })
        .into()
}

fn expand(function: &ItemFn) -> Result<proc_macro2::TokenStream, Error> {
    let arguments = arguments(&function.sig)?;
    let (names, types): (Vec<Ident>, Vec<&Type>) = arguments.into_iter().unzip();
    let output: Type = match &function.sig.output {
        ReturnType::Default => syn::parse_quote!(()),
        ReturnType::Type(_, output) => (**output).clone(),
    };
    let (name, visibility) = (&function.sig.ident, &function.vis);
    // What stands in the module is seen one level further down.
    let within = match visibility {
        syn::Visibility::Inherited => quote!(pub(super)),
        _ => quote!(pub),
    };
    let documentation = format!("The function [`{name}`](fn@{name}) as a work.");
    let of_call = format!("A call of [`{name}`](fn@super::{name}), to be given to `regrow::work::spawn`.");
    Ok(quote! {
        #[allow(clippy::needless_pass_by_value, reason = "a process has no memory of its caller's to borrow from")]
        #function

        #[doc = #documentation]
        #visibility mod #name {
            #[allow(unused_imports, reason = "the types of the arguments and of the result")]
            use super::*;

            #[doc = #of_call]
            #[allow(clippy::too_many_arguments, reason = "the function has as many")]
            #within fn call(#(#names: #types),*) -> ::regrow::work::Call<#output> {
                ::regrow::work::private::call(&FUNCTION, (#(#names,)*), run)
            }

            fn run((#(#names,)*): (#(#types,)*)) -> #output {
                super::#name(#(#names),*)
            }

            #[::regrow::work::private::distributed_slice(::regrow::work::private::FUNCTIONS)]
            #[linkme(crate = ::regrow::work::private::linkme)]
            static FUNCTION: ::regrow::work::private::Function = ::regrow::work::private::Function {
                name: concat!(module_path!(), "(", #(stringify!(#types), ",",)* ") -> ", stringify!(#output)),
                run: |arguments| ::regrow::work::private::run(arguments, run),
            };
        }
    })
}

/// The names and types of the arguments.
fn arguments(signature: &Signature) -> Result<Vec<(Ident, &Type)>, Error> {
    let refused = |span: &dyn Spanned, why: &str| Err(Error::new(span.span(), why));
    if !signature.generics.params.is_empty() {
        return refused(
            &signature.generics,
            "a fresh process runs one function: it has no generic parameters",
        );
    }
    if let Some(word) = &signature.asyncness {
        return refused(word, "a fresh process runs a function to its end: it is not `async`");
    }
    if let Some(word) = &signature.unsafety {
        return refused(word, "who starts a fresh process promises nothing: the function is not `unsafe`");
    }
    if let Some(dots) = &signature.variadic {
        return refused(dots, "the arguments are counted");
    }
    signature.inputs.iter().enumerate().map(|(number, input)| argument(number, input)).collect()
}

fn argument(number: usize, input: &FnArg) -> Result<(Ident, &Type), Error> {
    let FnArg::Typed(input) = input else {
        return Err(Error::new(input.span(), "a fresh process has no `self`: make it a plain function"));
    };
    if let Type::Reference(reference) = &*input.ty {
        let why = "a fresh process does not see the memory of its caller: take the argument by value";
        return Err(Error::new(reference.span(), why));
    }
    let name = match &*input.pat {
        Pat::Ident(name) => name.ident.clone(),
        _ => format_ident!("argument_{number}"),
    };
    Ok((name, &input.ty))
}
