// Unpacks the browser by the package's own code, which writes into the system's folder for temporary files.
import { constants, copyFileSync, rmSync } from "node:fs";

process.env.TMPDIR = process.cwd();
const { inflate } = await import("@sparticuz/chromium");
for (const packed of ["chromium.br", "al2023.tar.br", "swiftshader.tar.br", "fonts.tar.br"]) {
  await inflate(`node_modules/@sparticuz/chromium/bin/${packed}`);
}
rmSync("node_modules/@sparticuz", { recursive: true });
// Playwright's own node needs a library (libatomic) that a small machine lacks; this one does not.
copyFileSync(process.execPath, "node", constants.COPYFILE_FICLONE);
