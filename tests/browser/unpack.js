// Unpacks Chromium beside its package, and prints the path of the program.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

const folder = join(import.meta.dirname, "node_modules", ".chromium");
mkdirSync(folder, { recursive: true });
process.env.TMPDIR = folder;
// With its libraries and fonts: a machine without a desktop has none.
process.env.AWS_EXECUTION_ENV = "AWS_Lambda_nodejs22.x";
const { default: chromium } = await import("@sparticuz/chromium");
console.log(await chromium.executablePath());
