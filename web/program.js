// The page of `pyframe serve my_model.py`: the program's element, and its source beside it. With
// ?example=digits in its address it has the program of that demo.

const stage = document.getElementById("stage");

try {
  const response = await fetch("config.json");
  const config = await response.json();
  const example = new URLSearchParams(location.search).get("example");
  const program = example === null ? config.program : config.examples?.[example];
  if (!program) {
    throw new Error(example === null ? "This server has no program to show: start it as `pyframe serve my_model.py`."
      : `There is no example "${example}" here; expected one of ${Object.keys(config.examples ?? {}).join(", ")}.`);
  }
  document.title = program.name;
  document.getElementById("name").textContent = program.name;
  const frame = document.createElement("py-frame");
  frame.id = "program";
  frame.setAttribute("src", program.src);
  if (program.files.length) frame.setAttribute("files", program.files.join(" "));
  if (program.data.length) frame.setAttribute("data", program.data.join(" "));
  if (program.weights) frame.setAttribute("weights", program.weights);
  const editor = document.createElement("py-editor");
  editor.setAttribute("for", "program");
  stage.append(frame);
  document.getElementById("beside").append(editor);
} catch (error) {
  const message = document.createElement("p");
  message.className = "notice";
  message.textContent = error.message;
  stage.append(message);
}
