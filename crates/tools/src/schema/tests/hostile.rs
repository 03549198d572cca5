//! Schemas and values that are made to cost much.

use super::*;

#[allow(dead_code, reason = "a module that the measurements of memory and time share")]
#[path = "../../../tests/schemas/hostile.rs"]
mod generated;

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// The memory is measured in `tests/schemas`, the time by `examples/schemas.rs`.
    #[test]
    fn any_schema_on_any_value_takes_a_bounded_number_of_steps((document, value) in generated::pair()) {
        let begun = Instant::now();
        for made in [Schema::new(&document), Schema::of_server(&document)] {
            let Ok(schema) = made else { continue };
            prop_assert!(schema.weight() <= 16 << 20);
            let mut steps = Steps::of(&value);
            let most = steps.left();
            prop_assert!(most <= LEAST + LEAST / 10);
            let found = run::violations(&schema.0, schema.0.root, &value, &mut steps);
            prop_assert!(found.len() <= 8 && steps.left() <= most);
            let told: usize = found.iter().map(|one| one.path.len() + one.text.len()).sum();
            prop_assert!(told <= 8 * (4 * text::MAX_TEXT + 4 * 400 * 100));
        }
        // Far more than it takes, for machines that do much else.
        prop_assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
