/* The page of a report, which http/ui/bundle.mjs has made. */
    .section .rodata
    .hidden html_page, html_page_end
    .globl html_page, html_page_end
html_page:
    .incbin "report.html"
html_page_end:

    .section .note.GNU-stack, "", %progbits
