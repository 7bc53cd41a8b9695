// node on_pyodide.mjs PYODIDE CHECKOUT PROGRAM.py: a program under the CPython of Pyodide, with the checkout at /src.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [pyodide, checkout, program] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`));
const python = await loadPyodide({ indexURL: `${pyodide}/` });
python.FS.mkdir("/src");
python.FS.mount(python.FS.filesystems.NODEFS, { root: checkout }, "/src");
await python.runPythonAsync(readFileSync(program, "utf-8"));
