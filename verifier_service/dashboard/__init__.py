"""Pages for people, below ``/ui``. A new page takes four things:

1. a module here with ``router = APIRouter(prefix="/desk")`` whose routes take ``viewer: Reviewing`` (or
   ``Leading``, ``Observing``, ``Operating``, ``Administering``; ``visit: Visiting`` for anybody signed in),
   ``service: InService``, and answer ``pages.render(request, "desk.html", viewer, …)``;
2. a template that extends ``base.html`` with blocks ``title`` and ``main``. No scripts or styles in it:
   the policy forbids them. A page's own go to ``static/desk.js`` and ``static/desk.css``, linked in block
   ``head``. Every form that posts holds ``{{ csrf_field(csrf) }}``; htmx sends the token by itself;
3. its router in ``site.ROUTERS``;
4. its entry in ``navigation.ENTRIES``.

Forms are read by ``forms.form_of(Model)``; after a change ``pages.redirect(request, path, "Done.")``.
Errors of the domain may simply be raised: ``errors`` makes a page of them.
"""
