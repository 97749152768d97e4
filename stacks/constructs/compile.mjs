// Compiles a folder's Python files to bytecode of the Lambda runtime's own Python, whatever Python this machine has:
// CPython in WebAssembly, from npm, so neither Docker nor a second interpreter is needed.
//   node compile.mjs <folder> <version the runtime wants, "3.14">
import { loadPyodide } from "pyodide";

const [folder, wanted] = process.argv.slice(2);
const python = await loadPyodide();
python.mountNodeFS("/folder", folder);
python.globals.set("wanted", wanted);
const failure = python.runPython(`
import compileall, io, py_compile, sys
from contextlib import redirect_stdout

def compile_folder():
    found = ".".join(map(str, sys.version_info[:2]))
    if found != wanted:
        return f"pyodide brings Python {found} and the runtime is {wanted}: pin the matching pyodide in package.json"
    # Not checked against the source's time: a zip does not keep it, and a stale .pyc cannot be in a fresh one.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    with redirect_stdout(io.StringIO()) as said:
        done = compileall.compile_dir(
            "/folder", quiet=1, force=True, stripdir="/folder", prependdir="/var/task", invalidation_mode=mode
        )
    return "" if done else said.getvalue().strip()

compile_folder()
`);
if (failure) {
  console.error(failure);
  process.exit(1);
}
