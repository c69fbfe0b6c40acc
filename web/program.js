// The page of `pyframe serve my_model.py`: the program's element, and its source beside it.

const stage = document.getElementById("stage");

try {
  const response = await fetch("config.json");
  const { program } = await response.json();
  if (!program) throw new Error("This server has no program to show: start it as `pyframe serve my_model.py`.");
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
