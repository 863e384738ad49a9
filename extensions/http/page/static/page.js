// What HTML alone cannot do: Enter sends, files are dropped in, the newest words stay in view.
(() => {
  const form = document.getElementById("say");
  for (const chosen of document.querySelectorAll("[data-submit]")) {
    chosen.addEventListener("change", () => chosen.form.requestSubmit());
  }
  if (!form) return;
  const text = document.getElementById("text");
  const files = document.getElementById("files");
  const names = document.getElementById("file-names");
  const log = document.getElementById("log");

  const isAtEnd = () => window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 160;
  const toEnd = () => window.scrollTo(0, document.documentElement.scrollHeight);
  let follow = true;
  window.addEventListener("scroll", () => { follow = isAtEnd(); }, { passive: true });
  new MutationObserver(() => { if (follow) toEnd(); }).observe(log, { childList: true, subtree: true, characterData: true });

  const tellFiles = () => { names.textContent = Array.from(files.files, (file) => file.name).join(", "); };
  files.addEventListener("change", tellFiles);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.elt === form && !text.value.trim() && !files.files.length) event.preventDefault();
  });
  form.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt !== form || !event.detail.successful) return;
    text.value = "";
    files.value = "";
    tellFiles();
    log.querySelector(".empty")?.remove();
    follow = true;
    toEnd();
    text.focus();
  });
  const holdsFiles = (event) => event.dataTransfer && Array.from(event.dataTransfer.types).includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    form.classList.add("dropping");
  });
  document.addEventListener("dragleave", () => form.classList.remove("dropping"));
  document.addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    form.classList.remove("dropping");
    files.files = event.dataTransfer.files;
    tellFiles();
  });
  toEnd();
})();
