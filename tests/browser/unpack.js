// Unpacks Chromium beside its package unless it is there, and prints the path of the program.

import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

const folder = join(import.meta.dirname, "node_modules", ".chromium");
if (!existsSync(folder)) {
  // Under another name until it is complete: several processes may unpack at the same time.
  const own = `${folder}.${process.pid}`;
  mkdirSync(own);
  process.env.TMPDIR = own;
  // With its libraries and fonts: a machine without a desktop has none.
  process.env.AWS_EXECUTION_ENV = "AWS_Lambda_nodejs22.x";
  const { default: chromium } = await import("@sparticuz/chromium");
  await chromium.executablePath();
  try {
    renameSync(own, folder);
  } catch {
    rmSync(own, { recursive: true }); // another process was first
  }
}
console.log(join(folder, "chromium"));
