// Prints, as JSON, the simple case mappings of the Unicode versions that
// MySQL's collations are built on. Run by tables.py; the packages are those of npm,
// @unicode/unicode-3.0.0 and so on (generated from the Unicode Character Database).

const versions = ['3.0.0', '5.2.0', '9.0.0'];
const folder = process.argv[2];
const result = {};
for (const version of versions) {
  const load = async (path) => (await import(`${folder}/${version}/${path}`)).default;
  result[version] = {
    lower: [...(await load('Simple_Case_Mapping/Lowercase/code-points.mjs')).entries()],
    upper: [...(await load('Simple_Case_Mapping/Uppercase/code-points.mjs')).entries()],
  };
}
console.log(JSON.stringify(result));
