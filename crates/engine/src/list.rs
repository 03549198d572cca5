//! The macro that makes a list of commands: each entry is a method, which notes its calls, and a row with the cost of one call.

/// Makes methods of an entry each, and `COMMANDS`, the rows of all entries.
///
/// An entry has its effect, its [`Cost`](crate::Cost), its name, its arguments after the principal, its result, its
/// [`Subject`](crate::Subject), and, if it makes a kernel, which one it made. The type has a field `commands`, whose methods have the names of
/// the entries, and a method `begin_call` as [`Engine::begin_call`](crate::Engine::begin_call). No method of `commands` is reached past the list
/// if the type of that field is private to its crate.
#[macro_export]
macro_rules! commands {
    (
        $(#[doc = $all:literal])*
        impl $type:ident;
        asynchronous {$(
            $(#[doc = $text:literal])*
            $effect:ident($($cost:ident),+) $name:ident($($argument:ident: $kind:ty),*) -> $result:ty, $subject:expr $(, $made:expr)?;
        )*}
        immediate {$(
            $(#[doc = $now_text:literal])*
            $now_effect:ident($($now_cost:ident),+) $now_name:ident($($now_argument:ident: $now_kind:ty),*) -> $now_result:ty, $now_subject:expr;
        )*}
    ) => {
        $(#[doc = $all])*
        pub const COMMANDS: &[$crate::CommandRow] = &[
            $($crate::CommandRow {
                name: stringify!($name),
                effect: $crate::Effect::$effect,
                costs: &[$($crate::Cost::$cost),+],
            },)*
            $($crate::CommandRow {
                name: stringify!($now_name),
                effect: $crate::Effect::$now_effect,
                costs: &[$($crate::Cost::$now_cost),+],
            },)*
        ];

        impl $type {
            $(
                $(#[doc = $text])*
                pub async fn $name(
                    &self,
                    principal: &$crate::Principal
                    $(, $argument: $kind)*
                ) -> Result<$result, $crate::EngineError> {
                    let names = $crate::CallNames { command: stringify!($name), span: concat!("himalia.", stringify!($name)) };
                    let call = self.begin_call(names, $crate::Effect::$effect, principal, $subject);
                    let result = self.commands.$name(call.principal() $(, $argument)*).await;
                    let made: Option<fn(&$result) -> Option<$crate::KernelId>> = $crate::commands!(@made $($made)?);
                    call.end(&result, made);
                    result
                }
            )*
            $(
                $(#[doc = $now_text])*
                pub fn $now_name(
                    &self,
                    principal: &$crate::Principal
                    $(, $now_argument: $now_kind)*
                ) -> Result<$now_result, $crate::EngineError> {
                    let names = $crate::CallNames { command: stringify!($now_name), span: concat!("himalia.", stringify!($now_name)) };
                    let call = self.begin_call(names, $crate::Effect::$now_effect, principal, $now_subject);
                    let result = self.commands.$now_name(call.principal() $(, $now_argument)*);
                    call.end(&result, None);
                    result
                }
            )*
        }
    };
    (@made) => { None };
    (@made $made:expr) => { Some($made) };
}
