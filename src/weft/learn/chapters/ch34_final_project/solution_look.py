"""A page of images, drawn as one rectangle for each pixel that is not black."""

HEAD = (
    "<html><head><title>Digits</title><style>"
    "svg { width: 140px; background: black } figure { display: inline-block; margin: 8px }"
    "</style></head><body>"
)


def page(images, labels):
    shown = map(figure, images, labels)
    return f"{HEAD}{''.join(shown)}</body></html>"


def figure(image, label):
    pixels = "".join(
        f'<rect x="{x}" y="{y}" width="1" height="1" fill="rgb({v},{v},{v})"/>'
        for y, row in enumerate(image)
        for x, v in enumerate(row)
        if v
    )
    box = f"0 0 {len(image[0])} {len(image)}"
    return f'<figure><svg viewBox="{box}">{pixels}</svg><figcaption>{label}</figcaption></figure>'
