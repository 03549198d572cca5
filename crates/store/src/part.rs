//! The parts of [`Store`](crate::Store): each is declared once, for both databases.

/// Declares a part of the store: its trait, and the implementations for both databases and for [`MeasuredStore`](crate::MeasuredStore).
///
/// `read` and `write` run the function of the same name in the module. `= one(STATEMENT, value…)` makes that function: of one statement, which
/// gives one row or none, a `list`, whether a row is `changed`, or the `count` of changed rows. An id in brackets names the thing that the job is about: jobs about
/// one thing are done in their order. `fenced` is a write to a kernel: the function also gets the fencing epoch under which this replica has
/// it at the time of the call. `own` calls the method in brackets, which each database has.
macro_rules! part {
    (
        $(#[$about:meta])*
        $part:ident {
            $($(#[$doc:meta])* $kind:ident $([$($id:tt)+])? fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
                $(= $how:ident($statement:expr $(, $value:expr)*))?;)*
        }
    ) => {
        $(#[$about])*
        pub trait $part: std::fmt::Debug + Send + Sync + 'static {
            $($(#[$doc])* fn $name(&self $(, $argument: $type)*) -> $crate::StoreFuture<'_, $result>;)*
        }

        $($crate::part::function! {
            [$($how $statement, $crate::sql::params![$($value),*])?] $name($($argument: $type),*) -> $result
        })*

        impl $part for $crate::MeasuredStore {
            $(fn $name(&self $(, $argument: $type)*) -> $crate::StoreFuture<'_, $result> {
                self.timed(stringify!($name), self.store().$name($($argument),*))
            })*
        }

        impl $part for $crate::SqliteStore {
            $(fn $name(&self $(, $argument: $type)*) -> $crate::StoreFuture<'_, $result> {
                $crate::part::on_sqlite!($kind [$($($id)+)?] self $name($($argument),*))
            })*
        }

        impl $part for $crate::PostgresStore {
            $(fn $name(&self $(, $argument: $type)*) -> $crate::StoreFuture<'_, $result> {
                $crate::part::on_postgres!($kind [$($($id)+)?] self $name($($argument),*))
            })*
        }
    };
}
pub(crate) use part;

macro_rules! function {
    ([] $($rest:tt)*) => {};
    ([one $($run:tt)*] $($rest:tt)*) => { $crate::part::function! { [(one) $($run)*] $($rest)* } };
    ([list $($run:tt)*] $($rest:tt)*) => { $crate::part::function! { [(list) $($run)*] $($rest)* } };
    ([($method:ident) $statement:expr, $values:expr] $name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {
        async fn $name(sql: &impl $crate::sql::Sql $(, $argument: $type)*) -> Result<$result, $crate::failure::Failure> {
            sql.$method($statement, $values).await
        }
    };
    ([$run:ident $statement:expr, $values:expr] $name:ident($($argument:ident: $type:ty),*) -> $result:ty) => {
        async fn $name(sql: &impl $crate::sql::Sql $(, $argument: $type)*) -> Result<$result, $crate::failure::Failure> {
            $crate::sql::$run(sql, $statement, $values).await
        }
    };
}
pub(crate) use function;

macro_rules! on_sqlite {
    (own [$method:ident] $store:ident $name:ident($($argument:ident),*)) => {
        Box::pin($store.$method($($argument),*))
    };
    (read [$($id:tt)*] $store:ident $name:ident($($argument:ident),*)) => {
        Box::pin($store.run_read(move |sql| $crate::sql::completed($name(sql $(, $argument)*))))
    };
    (fenced [$($id:tt)+] $store:ident $name:ident($($argument:ident),*)) => {{
        let held = $store.claims.fence($($id)+);
        Box::pin($store.run_write(move |sql| $crate::sql::completed($name(sql, held $(, $argument)*))))
    }};
    (write [$($id:tt)*] $store:ident $name:ident($($argument:ident),*)) => {
        Box::pin($store.run_write(move |sql| $crate::sql::completed($name(sql $(, $argument)*))))
    };
}
pub(crate) use on_sqlite;

macro_rules! on_postgres {
    (own [$method:ident] $store:ident $name:ident($($argument:ident),*)) => {
        Box::pin($store.$method($($argument),*))
    };
    (read [$($id:tt)*] $store:ident $name:ident($($argument:ident),*)) => {
        Box::pin($store.run_read($crate::part::about!($($id)*), move |sql| async move { $name(&sql $(, $argument)*).await }))
    };
    (fenced [$($id:tt)+] $store:ident $name:ident($($argument:ident),*)) => {{
        let held = $store.claims.fence($($id)+);
        Box::pin($store.run_write(Some($($id)+), move |sql| async move { $name(&sql, held $(, $argument)*).await }))
    }};
    (write [$($id:tt)*] $store:ident $name:ident($($argument:ident),*)) => {
        Box::pin($store.run_write($crate::part::about!($($id)*), move |sql| async move { $name(&sql $(, $argument)*).await }))
    };
}
pub(crate) use on_postgres;

macro_rules! about {
    () => {
        None
    };
    ($($id:tt)+) => {
        Some($($id)+)
    };
}
pub(crate) use about;
