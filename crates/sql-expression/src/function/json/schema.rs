//! JSON_SCHEMA_VALID and JSON_SCHEMA_VALIDATION_REPORT: draft 4 of JSON Schema, as MySQL has it.
//!
//! # Owns
//! What each keyword asks of a document, and the report of the first that a document fails, in the
//! order in which MySQL looks: the type, the parts, the whole, then the combinations.
//! # Limits
//! Both depth and effort are bounded, since references can make a schema that never ends. `format`
//! and keywords of later drafts say nothing, other documents are not read (error 1235).

mod spot;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use sqltype::Datum;
use sqltype::json::Json;

use super::super::{Evaluated, Frame, Stop};
use super::{document, json_text};
use crate::context::EvalContext;
use crate::error::SqlError;
use spot::{Spot, Step, resolved};

/// Schemas that are within each other while one value is looked at. A document has 100 levels.
const DEPTH_MAX: u32 = 256;
/// How often schemas are held against a document, for each of its values; and how often anyway.
const CHECKS_PER_VALUE: u64 = 100;
const CHECKS_MIN: u64 = 10_000;
/// What a check counts for as work, in bytes of text.
const CHECK_WORK: u64 = 64;

pub(super) fn valid(f: &mut Frame<'_, '_>) -> Evaluated {
    Ok(Datum::Int(validate(f)?.is_none().into()))
}

pub(super) fn report(f: &mut Frame<'_, '_>) -> Evaluated {
    let text = |text: &str| Json::String(text.to_owned());
    let mut members = Vec::new();
    let failure = validate(f)?;
    members.push(("valid".to_owned(), Json::Bool(failure.is_none())));
    if let Some(Failure { schema, document, keyword }) = failure {
        let reason = format!(
            "The JSON document location '{document}' failed requirement '{keyword}' at JSON Schema \
             location '{schema}'"
        );
        members.extend([
            ("reason".to_owned(), Json::String(reason)),
            ("schema-location".to_owned(), Json::String(schema)),
            ("document-location".to_owned(), Json::String(document)),
            ("schema-failed-keyword".to_owned(), text(keyword)),
        ]);
    }
    Ok(json_text(&Json::object(members)))
}

/// What the document fails first.
fn validate(f: &mut Frame<'_, '_>) -> Result<Option<Failure>, Stop> {
    let schema = document(f, 0)?;
    let document = document(f, 1)?;
    if !matches!(schema, Json::Object(_)) {
        let name = f.call.function.name;
        return Err(SqlError::of::<3853>(&[&1, &name, &"object"]).into());
    }
    if refers_elsewhere(&schema) {
        return Err(SqlError::not_supported("references in JSON Schema").into());
    }
    let checks_max = CHECKS_MIN + CHECKS_PER_VALUE * values(&document);
    let root = &schema;
    let mut check = Check { root, context: &mut *f.context, depth: 0, checks: 0, checks_max };
    let outcome = check.check(&Spot::root(&schema), &Spot::root(&document));
    f.context.work += check.checks * CHECK_WORK;
    match outcome {
        Ok(()) => Ok(None),
        Err(Fault::Failed(failure)) => Ok(Some(*failure)),
        Err(Fault::Error(error)) => Err(error.into()),
    }
}

/// A keyword that a document fails, and where.
struct Failure {
    schema: String,
    document: String,
    keyword: &'static str,
}

/// Why a check ends.
enum Fault {
    Failed(Box<Failure>),
    Error(SqlError),
}

impl From<SqlError> for Fault {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

/// A validation under way.
struct Check<'c> {
    root: &'c Json,
    context: &'c mut EvalContext,
    depth: u32,
    checks: u64,
    checks_max: u64,
}

impl Check<'_> {
    /// Holds a schema against a value.
    fn check(&mut self, schema: &Spot<'_>, value: &Spot<'_>) -> Result<(), Fault> {
        self.checks += 1;
        if self.checks > self.checks_max {
            let feature =
                format!("more than {} checks of a document by its JSON schema", self.checks_max);
            return Err(SqlError::not_supported(feature).into());
        }
        if self.depth >= DEPTH_MAX {
            let feature = format!("JSON schemas that are more than {DEPTH_MAX} deep at a value");
            return Err(SqlError::not_supported(feature).into());
        }
        self.depth += 1;
        let root = self.root;
        let outcome = match resolved(root, schema) {
            Some(schema) => self.check_resolved(&schema, value),
            None => Ok(()),
        };
        self.depth -= 1;
        outcome
    }

    /// Whether a value meets a schema.
    fn holds(&mut self, schema: &Spot<'_>, value: &Spot<'_>) -> Result<bool, Fault> {
        match self.check(schema, value) {
            Ok(()) => Ok(true),
            Err(Fault::Failed(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn check_resolved(&mut self, schema: &Spot<'_>, value: &Spot<'_>) -> Result<(), Fault> {
        if let Some(wanted) = schema.member("type") {
            let is_one = match wanted.json {
                Json::String(name) => is_of_type(value.json, name),
                _ => wanted.texts().any(|name| is_of_type(value.json, name)),
            };
            require(is_one, "type", schema, value)?;
        }
        match value.json {
            Json::Object(members) => self.object(schema, value, members)?,
            Json::Array(elements) => self.array(schema, value, elements)?,
            Json::String(text) => self.text(schema, value, text)?,
            Json::Null | Json::Bool(_) => {}
            number => check_number(schema, value, number)?,
        }
        self.combinations(schema, value)
    }

    fn object(
        &mut self,
        schema: &Spot<'_>,
        value: &Spot<'_>,
        members: &[(String, Json)],
    ) -> Result<(), Fault> {
        for (name, json) in members {
            self.property(schema, name, &value.then(Step::Name(name), json))?;
        }
        if let Some(required) = schema.member("required") {
            let is_there = |name: &str| value.json.member(name).is_some();
            require(required.texts().all(is_there), "required", schema, value)?;
        }
        let count = members.len() as u64;
        let enough = schema.count("minProperties").is_none_or(|least| count >= least);
        require(enough, "minProperties", schema, value)?;
        let few = schema.count("maxProperties").is_none_or(|most| count <= most);
        require(few, "maxProperties", schema, value)?;
        let Some(dependencies) = schema.member("dependencies") else { return Ok(()) };
        for (name, needs) in dependencies.members() {
            if value.json.member(name).is_none() {
                continue;
            }
            let met = match needs.json {
                Json::Object(_) => self.holds(&needs, value)?,
                _ => needs.texts().all(|other| value.json.member(other).is_some()),
            };
            require(met, "dependencies", schema, value)?;
        }
        Ok(())
    }

    /// A member of an object.
    fn property(&mut self, schema: &Spot<'_>, name: &str, value: &Spot<'_>) -> Result<(), Fault> {
        let (mut is_matched, mut patterns_hold) = (false, true);
        if let Some(patterns) = schema.member("patternProperties") {
            for (pattern, wanted) in patterns.members() {
                if self.matches(pattern, name)? == Some(true) {
                    is_matched = true;
                    patterns_hold = patterns_hold && self.holds(&wanted, value)?;
                }
            }
        }
        let properties = schema.member("properties");
        if let Some(wanted) = properties.as_ref().and_then(|properties| properties.member(name)) {
            if !is_matched {
                return self.check(&wanted, value);
            }
            let holds = patterns_hold && self.holds(&wanted, value)?;
            return require(holds, "patternProperties", schema, value);
        }
        if is_named(schema, name) {
            return require(patterns_hold, "patternProperties", schema, value);
        }
        match schema.member("additionalProperties") {
            Some(wanted) if matches!(wanted.json, Json::Object(_)) => {
                if !is_matched {
                    return self.check(&wanted, value);
                }
                // MySQL takes it for another way to be valid.
                let holds = patterns_hold || self.holds(&wanted, value)?;
                require(holds, "patternProperties", schema, value)
            }
            Some(_) if !is_matched && schema.says("additionalProperties", false) => {
                require(false, "additionalProperties", schema, value)
            }
            _ => require(patterns_hold, "patternProperties", schema, value),
        }
    }

    fn array(
        &mut self,
        schema: &Spot<'_>,
        value: &Spot<'_>,
        elements: &[Json],
    ) -> Result<(), Fault> {
        let items = schema.member("items");
        let tuple: Option<Vec<Spot<'_>>> = match &items {
            Some(items) if matches!(items.json, Json::Array(_)) => Some(items.elements().collect()),
            _ => None,
        };
        let mut seen = schema.says("uniqueItems", true).then(BTreeSet::new);
        for (at, json) in elements.iter().enumerate() {
            let element = value.then(Step::Index(at), json);
            match (&tuple, &items) {
                (Some(tuple), _) if at < tuple.len() => self.check(&tuple[at], &element)?,
                (Some(_), _) => {
                    let allowed = !schema.says("additionalItems", false);
                    require(allowed, "additionalItems", schema, &element)?;
                    if let Some(wanted) = schema.member("additionalItems") {
                        self.check(&wanted, &element)?;
                    }
                }
                (None, Some(wanted)) => self.check(wanted, &element)?,
                (None, None) => {}
            }
            if let Some(seen) = &mut seen {
                require(seen.insert(Ordered(json)), "uniqueItems", schema, &element)?;
            }
        }
        let count = elements.len() as u64;
        let enough = schema.count("minItems").is_none_or(|least| count >= least);
        require(enough, "minItems", schema, value)?;
        let few = schema.count("maxItems").is_none_or(|most| count <= most);
        require(few, "maxItems", schema, value)
    }

    fn text(&mut self, schema: &Spot<'_>, value: &Spot<'_>, text: &str) -> Result<(), Fault> {
        let (least, most) = (schema.count("minLength"), schema.count("maxLength"));
        if least.is_some() || most.is_some() {
            let length = text.chars().count() as u64;
            require(least.is_none_or(|least| length >= least), "minLength", schema, value)?;
            require(most.is_none_or(|most| length <= most), "maxLength", schema, value)?;
        }
        match schema.json.member("pattern") {
            Some(Json::String(pattern)) => {
                let matches = self.matches(pattern, text)? != Some(false);
                require(matches, "pattern", schema, value)
            }
            _ => Ok(()),
        }
    }

    fn combinations(&mut self, schema: &Spot<'_>, value: &Spot<'_>) -> Result<(), Fault> {
        if let Some(values) = schema.member("enum") {
            let is_one = values.elements().any(|one| one.json.compare(value.json).is_eq());
            // Without an element it is no list.
            let is_list = values.elements().next().is_some();
            require(is_one || !is_list, "enum", schema, value)?;
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let Some(all) = schema.member(keyword) else { continue };
            let (mut count, mut held) = (0, 0);
            for one in all.elements() {
                count += 1;
                held += u32::from(self.holds(&one, value)?);
                if keyword == "anyOf" && held > 0 {
                    break;
                }
            }
            let is_met = match keyword {
                "allOf" => held == count,
                "anyOf" => held > 0,
                _ => held == 1,
            };
            // Without an element it is no combination.
            require(is_met || count == 0, keyword, schema, value)?;
        }
        match schema.member("not") {
            Some(wanted) if matches!(wanted.json, Json::Object(_)) => {
                require(!self.holds(&wanted, value)?, "not", schema, value)
            }
            _ => Ok(()),
        }
    }

    /// Whether a text has what a pattern looks for. MySQL ignores patterns that are none; those
    /// that we cannot have are refused.
    fn matches(&mut self, pattern: &str, text: &str) -> Result<Option<bool>, SqlError> {
        if pattern.is_empty() {
            return Ok(Some(true));
        }
        match self.context.patterns.case_sensitive(pattern) {
            Ok(pattern) => Ok(Some(pattern.is_match(text))),
            Err(error) if matches!(error.code(), 3690 | 3700) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// Fails a keyword that is not met.
fn require(
    is_met: bool,
    keyword: &'static str,
    schema: &Spot<'_>,
    value: &Spot<'_>,
) -> Result<(), Fault> {
    if is_met {
        Ok(())
    } else {
        let (schema, document) = (schema.location(), value.location());
        Err(Fault::Failed(Box::new(Failure { schema, document, keyword })))
    }
}

/// Whether anything in a schema refers to another document.
fn refers_elsewhere(json: &Json) -> bool {
    match json {
        Json::Array(elements) => elements.iter().any(refers_elsewhere),
        Json::Object(members) => members.iter().any(|(name, json)| match json {
            Json::String(to) if name == "$ref" => !to.is_empty() && !to.starts_with('#'),
            other => refers_elsewhere(other),
        }),
        _ => false,
    }
}

/// How many values there are in one.
fn values(json: &Json) -> u64 {
    1 + match json {
        Json::Array(elements) => elements.iter().map(values).sum(),
        Json::Object(members) => members.iter().map(|(_, json)| values(json)).sum(),
        _ => 0,
    }
}

/// Whether a schema names a property outside of `properties`, which as in MySQL is enough to be no
/// additional one.
fn is_named(schema: &Spot<'_>, name: &str) -> bool {
    let required = schema.member("required");
    if required.is_some_and(|required| required.texts().any(|known| known == name)) {
        return true;
    }
    let dependencies = schema.member("dependencies");
    dependencies.is_some_and(|dependencies| {
        let mut dependencies = dependencies.members();
        dependencies.any(|(known, needs)| known == name || needs.texts().any(|need| need == name))
    })
}

fn is_of_type(json: &Json, name: &str) -> bool {
    match json {
        Json::Null => name == "null",
        Json::Bool(_) => name == "boolean",
        Json::Int(_) | Json::UInt(_) => matches!(name, "integer" | "number"),
        Json::Double(_) | Json::Decimal(_) => name == "number",
        Json::String(_) => name == "string",
        Json::Array(_) => name == "array",
        Json::Object(_) => name == "object",
    }
}

fn is_number(json: &Json) -> bool {
    is_of_type(json, "number")
}

fn check_number(schema: &Spot<'_>, value: &Spot<'_>, number: &Json) -> Result<(), Fault> {
    let limits = [
        ("minimum", "exclusiveMinimum", Ordering::Less),
        ("maximum", "exclusiveMaximum", Ordering::Greater),
    ];
    for (keyword, exclusive, beyond) in limits {
        if let Some(limit) = schema.json.member(keyword).filter(|limit| is_number(limit)) {
            let order = number.compare(limit);
            let is_met = order != beyond && !(order.is_eq() && schema.says(exclusive, true));
            require(is_met, keyword, schema, value)?;
        }
    }
    match schema.json.member("multipleOf") {
        Some(step) => require(is_multiple(number, step), "multipleOf", schema, value),
        None => Ok(()),
    }
}

/// Whether a number is a multiple, as exactly as floating point can tell. A step that is no number
/// above zero is none.
fn is_multiple(number: &Json, step: &Json) -> bool {
    let whole = |json: &Json| match json {
        Json::Int(value) => Some(i128::from(*value)),
        Json::UInt(value) => Some(i128::from(*value)),
        _ => None,
    };
    let double = |json: &Json| match json {
        Json::Double(value) => Some(*value),
        Json::Decimal(value) => Some(value.to_f64()),
        other => whole(other).map(|value| value as f64),
    };
    if let (Some(number), Some(step @ 1..)) = (whole(number), whole(step)) {
        return number % step == 0;
    }
    let (Some(number), Some(step)) = (double(number), double(step).filter(|step| *step > 0.0))
    else {
        return true;
    };
    let quotient = number.abs() / step;
    let nearest = quotient.round();
    (quotient - nearest).abs() <= (quotient + nearest) * f64::EPSILON
}

/// A value in a set of values.
struct Ordered<'j>(&'j Json);

impl Ord for Ordered<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.compare(other.0)
    }
}

impl PartialOrd for Ordered<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered<'_> {}
