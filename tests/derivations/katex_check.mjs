// Reads a JSON list of LaTeX formulas from standard input and writes a JSON list of error messages, null for a formula
// that KaTeX renders. The folder of the katex module comes from the environment variable AIMTHEORY_KATEX.
import { createRequire } from "node:module";
import { resolve } from "node:path";

const require = createRequire(import.meta.url);
const katex = require(resolve(process.env.AIMTHEORY_KATEX));

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const formulas = JSON.parse(Buffer.concat(chunks).toString("utf8"));

const messages = formulas.map((formula) => {
  try {
    katex.renderToString(formula, { displayMode: true, throwOnError: true, strict: "error" });
    return null;
  } catch (error) {
    return String(error.message ?? error);
  }
});
process.stdout.write(JSON.stringify(messages));
